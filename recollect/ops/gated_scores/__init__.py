"""Linear attention whose scores have a gate per row and one per column; equations in plain.py."""

import torch
from torch import Tensor

from recollect.ops.dispatch import shared_memory, use_triton
from recollect.ops.gated_scores import plain


def gated_scores(
    q_PBGKD: Tensor,
    k_PBGLD: Tensor,
    v_PBHLE: Tensor,
    row_PBHK: Tensor,
    column_PBHL: Tensor,
    skip_PH: Tensor | None = None,
    where_BK: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return y_PBHKE and total_PBHK, differentiable in everything except `where_BK`, the positions
    of the queries; without it there is a query at every position.
    """
    arguments = (q_PBGKD, k_PBGLD, v_PBHLE, row_PBHK, column_PBHL, skip_PH, where_BK)
    if use_triton(q_PBGKD, k_PBGLD, v_PBHLE):
        from recollect.ops.gated_scores import triton_kernel

        keys, values = q_PBGKD.shape[-1], v_PBHLE.shape[-1]
        dtype = torch.promote_types(q_PBGKD.dtype, v_PBHLE.dtype)
        if triton_kernel.fits(keys, values, dtype, shared_memory(v_PBHLE)):
            return triton_kernel.gated_scores(*arguments)
    return plain.gated_scores(*arguments)
