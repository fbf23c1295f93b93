"""The GRU over a whole sequence, or one step of it; equations in plain.py."""

import torch
from torch import Tensor

from recollect.ops.channels_first import product_dtype
from recollect.ops.dispatch import shared_memory, use_triton
from recollect.ops.gru import plain
from recollect.ops.gru.plain import gru_step
from recollect.ops.linear import linear

__all__ = ["gru", "gru_step"]


def gru(
    x_PBLD: Tensor, into_PDG: Tensor, bias_PG: Tensor, recur_PDG: Tensor, recur_bias_PG: Tensor
) -> Tensor:
    """Return h_PBLD from h = 0, differentiable in all arguments."""
    if use_triton(x_PBLD):
        from recollect.ops.gru import triton_kernel

        width = recur_PDG.shape[1]
        if triton_kernel.fits(width, product_dtype(x_PBLD), shared_memory(x_PBLD)):
            product_PBLG = linear(x_PBLD, into_PDG)
            both = bias_PG[:, : 2 * width] + recur_bias_PG[:, : 2 * width]  # of r and z
            # The reset gate is applied between the two biases of n.
            apart = bias_PG[:, 2 * width :], recur_bias_PG[:, 2 * width :]
            bias_PF = torch.cat((both, *apart), dim=1)
            return triton_kernel.gru(product_PBLG, bias_PF, recur_PDG)
    return plain.gru(x_PBLD, into_PDG, bias_PG, recur_PDG, recur_bias_PG)
