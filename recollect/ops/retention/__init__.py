"""RetNet's retention: linear attention under a fixed decay per head (Sun et al. 2023).

    o_i = sum_{j<=i} gamma_h^(i-j) (q_i . k_j) v_j

with gamma_h = 1 - 2^(-5-h) in head h = 0, 1, ...

Shapes: P population, B batch, H heads, L length, K queries, D channels of a key, E of a value.
"""

from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.retention import by_gates, plain
from recollect.ops.retention.plain import log_gamma, retained_scores

__all__ = ["log_gamma", "retained_scores", "retention"]


def retention(
    q_PBHKD: Tensor, k_PBHLD: Tensor, v_PBHLE: Tensor, where_BK: Tensor | None = None
) -> Tensor:
    """Return o_PBHKE of queries at the positions `where_BK`, or at all; differentiable in q,
    k, v.
    """
    if where_BK is None and not use_triton(q_PBHKD, k_PBHLD, v_PBHLE):
        return plain.retention(q_PBHKD, k_PBHLD, v_PBHLE)
    return by_gates.retention(q_PBHKD, k_PBHLD, v_PBHLE, where_BK)
