"""The linear recurrence with one decay per channel; equations in plain.py."""

from torch import Tensor

from recollect.ops.diagonal_scan import plain
from recollect.ops.dispatch import use_triton


def diagonal_scan(a: Tensor, x: Tensor) -> Tensor:
    """Return all h_t = a_t h_{t-1} + x_t, in the shape (P, B, L, ...) of `a` and `x`,
    differentiable in both.

    The decay a_0 has no effect.
    """
    if use_triton(a, x):
        from recollect.ops.diagonal_scan import triton_kernel

        return triton_kernel.diagonal_scan(a, x)
    return plain.diagonal_scan(a, x)
