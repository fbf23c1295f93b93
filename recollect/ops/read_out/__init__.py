"""Steps from the heads' read of a memory to the input of an mLSTM's last projection; the equation
is in plain.py.
"""

from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.read_out import plain


def read_out(
    h: Tensor,
    divisor: Tensor | None,
    c: Tensor,
    z: Tensor,
    scale_PE: Tensor,
    skip_PE: Tensor,
    eps: float,
) -> Tensor:
    """Return (P, ..., E) from h (P, ..., H, D), a divisor (P, ..., H), and c and z (P, ..., E)."""
    if use_triton(h, c, z):
        from recollect.ops.read_out import triton_kernel

        return triton_kernel.read_out(h, divisor, c, z, scale_PE, skip_PE, eps)
    return plain.read_out(h, divisor, c, z, scale_PE, skip_PE, eps)
