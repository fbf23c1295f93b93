"""One product per block."""

import torch
from torch import Tensor


def block_diagonal(x: Tensor, weight_PROO: Tensor) -> Tensor:
    population, blocks, size, _ = weight_PROO.shape
    x_PMRO = x.reshape(population, -1, blocks, size)
    return torch.einsum("pmri,prio->pmro", x_PMRO, weight_PROO).reshape(x.shape)
