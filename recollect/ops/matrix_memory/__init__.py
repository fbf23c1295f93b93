"""xLSTM's matrix memory with exponential gates, for all positions at once (Beck et al. 2024).

With F_t = log sigmoid(f_1) + ... + log sigmoid(f_t):

    G_ij = F_i - F_j + i_j        m_i = max(0, max_{j<=i} G_ij)
    S_ij = (q_i . k_j) exp(G_ij - m_i) for j <= i
    h_i = sum_j S_ij v_j / (max(|sum_j S_ij|, exp(-m_i)) + eps)

Shapes: P population, B batch, H heads, L length, K queries, D channels of a head; i and f are a
head's input and forget gates before exp and sigmoid. k is scaled already.
"""

from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.matrix_memory import by_gates, plain
from recollect.ops.matrix_memory.plain import divisor, normalised_scores

__all__ = ["divisor", "matrix_memory", "normalised_scores"]


def matrix_memory(
    q_PBHKD: Tensor,
    k_PBHLD: Tensor,
    v_PBHLD: Tensor,
    i_PBHL: Tensor,
    f_PBHL: Tensor,
    where_BK: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Return h_PBHKD of queries at the positions `where_BK`, or at all, and the divisor (P, B, H,
    K) that is still to be applied to it, or None.
    """
    if where_BK is None and not use_triton(q_PBHKD, k_PBHLD, v_PBHLD):
        return plain.matrix_memory(q_PBHKD, k_PBHLD, v_PBHLD, i_PBHL, f_PBHL), None
    return by_gates.matrix_memory(q_PBHKD, k_PBHLD, v_PBHLD, i_PBHL, f_PBHL, where_BK)
