"""The exact GELU of a product to which a bias per member and channel is still to be added.

Shapes: P population, M rows of one member, H channels.
"""

import torch.nn.functional as F
from torch import Tensor

from recollect.ops.dispatch import use_triton


def bias_gelu(x_PMH: Tensor, bias_PH: Tensor) -> Tensor:
    """z Phi(z) of z = x + bias[p], in the dtype of x."""
    if use_triton(x_PMH):
        from recollect.ops import bias_gelu_triton

        return bias_gelu_triton.bias_gelu(x_PMH, bias_PH)
    return F.gelu(x_PMH + bias_PH[:, None]).to(x_PMH.dtype)
