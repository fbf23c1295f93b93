"""One product with the whole matrix: tensor cores gain nothing from blocks of four, and multiplying
the zeros around them costs less.
"""

import torch
from torch import Tensor


def block_diagonal(x: Tensor, weight_PROO: Tensor) -> Tensor:
    population, blocks, size, _ = weight_PROO.shape
    dense_PROSO = torch.diag_embed(weight_PROO.permute(0, 2, 3, 1), dim1=1, dim2=3)
    dense_PEE = dense_PROSO.reshape(population, blocks * size, -1)
    return torch.bmm(x.flatten(1, -2), dense_PEE).view(x.shape)
