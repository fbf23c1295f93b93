"""The decay from j to i as a gate of row i times a gate of column j, so that single rows of the
matrix can be computed.
"""

from torch import Tensor

from recollect.ops.gated_scores import gated_scores
from recollect.ops.layout import at_positions

SMALLEST_STEP = 1e-30  # has a logarithm; a smaller step has no effect


def state_space_dual(
    c_PBLN: Tensor,
    b_PBLN: Tensor,
    v_PBHLV: Tensor,
    delta_PBHL: Tensor,
    g_PBHL: Tensor,
    skip_PH: Tensor,
    where_BK: Tensor | None,
) -> Tensor:
    """Return y_PBHKV at the positions `where_BK`, or at all."""
    running_PBHL = g_PBHL.double().cumsum(-1)
    # delta_j is part of the gate of column j.
    column_PBHL = delta_PBHL.clamp(min=SMALLEST_STEP).double().log() - running_PBHL
    row_PBHK, c_PBKN = running_PBHL, c_PBLN
    if where_BK is not None:
        index = where_BK[None, :, None].expand(*running_PBHL.shape[:3], -1)
        row_PBHK, c_PBKN = running_PBHL.gather(3, index), at_positions(c_PBLN, where_BK)
    c_PB1KN, b_PB1LN = c_PBKN[:, :, None], b_PBLN[:, :, None]
    y_PBHKV, _ = gated_scores(c_PB1KN, b_PB1LN, v_PBHLV, row_PBHK, column_PBHL, skip_PH, where_BK)
    return y_PBHKV
