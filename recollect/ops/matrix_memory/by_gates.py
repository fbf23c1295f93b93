"""exp(G_ij - m_i) as a gate of row i times a gate of column j, so that single rows of the matrix
can be computed.
"""

import torch.nn.functional as F
from torch import Tensor

from recollect.ops.gated_scores import gated_scores
from recollect.ops.matrix_memory.plain import divisor


def matrix_memory(
    q_PBHKD: Tensor,
    k_PBHLD: Tensor,
    v_PBHLD: Tensor,
    i_PBHL: Tensor,
    f_PBHL: Tensor,
    where_BK: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the sum over j of S_ij v_j, and its divisor."""
    past_PBHL = F.logsigmoid(f_PBHL).double().cumsum(-1)
    column_PBHL = i_PBHL.double() - past_PBHL
    m_PBHK = (past_PBHL + column_PBHL.cummax(-1).values).clamp(min=0)
    row_PBHK = past_PBHL - m_PBHK
    if where_BK is not None:
        index = where_BK[None, :, None].expand(*m_PBHK.shape[:3], -1)
        m_PBHK, row_PBHK = m_PBHK.gather(3, index), row_PBHK.gather(3, index)
    sum_PBHKD, total_PBHK = gated_scores(
        q_PBHKD, k_PBHLD, v_PBHLD, row_PBHK, column_PBHL, None, where_BK
    )
    return sum_PBHKD, divisor(total_PBHK, m_PBHK.to(total_PBHK.dtype))
