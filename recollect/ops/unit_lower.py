"""Systems with a unit lower triangular matrix, many small ones at once.

    (I + strictly_lower(a)) x = r

Shapes: (..., T, T) and (..., T, E); of `a` only what lies below the diagonal is read.
"""

import torch
from torch import Tensor

from recollect.ops.kernels import use_kernel

LARGEST = 64  # positions that the kernel keeps in registers


def unit_lower_solve(a: Tensor, r: Tensor) -> Tensor:
    """x (..., T, E) by forward substitution, differentiable in both: dr = (I + a)^-T dx, da = -strictly_lower(dr x^T)."""
    if use_kernel(a, r) and r.shape[-2] <= LARGEST and r.dtype != torch.float64:
        from recollect.ops import unit_lower_triton

        return unit_lower_triton.unit_lower_solve(a, r)
    return torch.linalg.solve_triangular(a, r, upper=False, unitriangular=True)
