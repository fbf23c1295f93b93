"""gamma_h^(i-j) as a gate of row i times a gate of column j, so that single rows of the matrix can
be computed.
"""

import torch
from torch import Tensor

from recollect.ops.gated_scores import gated_scores
from recollect.ops.retention.plain import log_gamma


def retention(q_PBHKD: Tensor, k_PBHLD: Tensor, v_PBHLE: Tensor, where_BK: Tensor | None) -> Tensor:
    """Return o_PBHKE of queries at the positions `where_BK`, or at all."""
    heads, length = k_PBHLD.shape[2:4]
    position_L = torch.arange(length, dtype=torch.float64, device=k_PBHLD.device)
    log_HL = log_gamma(heads, k_PBHLD.device)[:, None] * position_L
    column_PBHL = -log_HL.expand(*k_PBHLD.shape[:2], -1, -1)
    row_PBHK = -column_PBHL
    if where_BK is not None:
        row_PBHK = row_PBHK.gather(3, where_BK[None, :, None].expand(*q_PBHKD.shape[:3], -1))
    return gated_scores(q_PBHKD, k_PBHLD, v_PBHLE, row_PBHK, column_PBHL, None, where_BK)[0]
