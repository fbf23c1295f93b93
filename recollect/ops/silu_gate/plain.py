"""The gate in PyTorch's operations."""

import torch.nn.functional as F
from torch import Tensor


def silu_gate(y: Tensor, gate: Tensor) -> Tensor:
    return (y * F.silu(gate)).to(y.dtype)
