"""Linear attention whose scores have a gate per row and one per column; equations in plain.py."""

from torch import Tensor

from recollect.ops.dispatch import use_triton
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

        if triton_kernel.fits(q_PBGKD, v_PBHLE):
            return triton_kernel.gated_scores(*arguments)
    return plain.gated_scores(*arguments)
