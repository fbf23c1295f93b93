"""The LSTM over a whole sequence, or one step of it; equations in plain.py."""

from torch import Tensor

from recollect.ops.channels_first import product_dtype
from recollect.ops.dispatch import shared_memory, use_triton
from recollect.ops.linear import linear
from recollect.ops.lstm import plain
from recollect.ops.lstm.plain import lstm_step

__all__ = ["lstm", "lstm_step"]


def lstm(
    x_PBLD: Tensor, into_PDG: Tensor, bias_PG: Tensor, recur_PDG: Tensor, recur_bias_PG: Tensor
) -> Tensor:
    """Return h_PBLD from h = c = 0, differentiable in all arguments."""
    if use_triton(x_PBLD):
        from recollect.ops.lstm import triton_kernel

        if triton_kernel.fits(recur_PDG.shape[1], product_dtype(x_PBLD), shared_memory(x_PBLD)):
            product_PBLG = linear(x_PBLD, into_PDG)
            return triton_kernel.lstm(product_PBLG, bias_PG + recur_bias_PG, recur_PDG)
    return plain.lstm(x_PBLD, into_PDG, bias_PG, recur_PDG, recur_bias_PG)
