"""Mamba's selection and scan (S6, Gu and Dao 2023) as one operation, from u to y.

    [d, B, C] = u W        delta = softplus(d V + bias)        A = -exp(a_log)
    h_t = exp(delta_t A) * h_{t-1} + (delta_t u_t) B_t         y_t = h_t C_t + skip u_t

Shapes: P population, B batch, L length, E channels, N state, R rank of the step size, O = R + 2 N
columns of W, K positions.
"""

import torch
from torch import Tensor

from recollect.ops.dispatch import use_numba, use_triton
from recollect.ops.selective_scan import plain
from recollect.ops.selective_scan.plain import selection

__all__ = ["selection", "selective_scan"]


def selective_scan(
    u_PBLE: Tensor,
    select_PEO: Tensor,
    raise_PRE: Tensor,
    bias_PE: Tensor,
    a_log_PEN: Tensor,
    skip_PE: Tensor,
    where_BK: Tensor | None = None,
) -> Tensor:
    """Return y_PBLE, differentiable in all tensors; W is `select`, V is `raise`.

    With `where_BK` y is needed only at these positions and may be undefined elsewhere.
    """
    if use_triton(u_PBLE):
        from recollect.ops.selective_scan import triton_kernel

        steps_B = None if where_BK is None else where_BK.amax(1).to(torch.int32) + 1
        return triton_kernel.selective_scan(
            u_PBLE, select_PEO, raise_PRE, bias_PE, a_log_PEN, skip_PE, steps_B
        )
    raw_PBLE, b_PBLN, c_PBLN = selection(u_PBLE, select_PEO, raise_PRE, bias_PE)
    a_PEN = -a_log_PEN.exp()
    if use_numba(u_PBLE):
        from recollect.ops.selective_scan import numba_kernel

        return numba_kernel.scan(u_PBLE, raw_PBLE, a_PEN, b_PBLN, c_PBLN, skip_PE)
    return plain.scan(u_PBLE, raw_PBLE, a_PEN, b_PBLN, c_PBLN, skip_PE)
