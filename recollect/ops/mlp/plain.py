"""The MLP and its activation in PyTorch's operations.

Shapes: P population, M rows of one member, D width, H hidden units.
"""

import torch.nn.functional as F
from torch import Tensor

from recollect.ops.linear import linear


def mlp(
    x: Tensor, up_PDH: Tensor, up_bias_PH: Tensor, down_PHD: Tensor, down_bias_PD: Tensor
) -> Tensor:
    return linear(F.gelu(linear(x, up_PDH, up_bias_PH)), down_PHD, down_bias_PD)


def bias_gelu(x_PMH: Tensor, bias_PH: Tensor) -> Tensor:
    """Return z Phi(z) of z = x + bias[p], in the dtype of x, as the kernel does."""
    return F.gelu(x_PMH + bias_PH[:, None]).to(x_PMH.dtype)
