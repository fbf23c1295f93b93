"""Mamba2's state space with one decay per head, as a masked matrix (Dao and Gu 2024).

    y_i = sum_{j<=i} (C_i . B_j) exp(g_{j+1} + ... + g_i) delta_j v_j + skip v_i

Shapes: P population, B batch, L length, K positions, H heads, N state, V channels of a head; g <= 0
is the logarithm of a head's decay. B and C are shared by all heads.
"""

from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.state_space_dual import by_gates, plain
from recollect.ops.state_space_dual.plain import decayed_matches

__all__ = ["decayed_matches", "state_space_dual"]


def state_space_dual(
    c_PBLN: Tensor,
    b_PBLN: Tensor,
    v_PBHLV: Tensor,
    delta_PBHL: Tensor,
    g_PBHL: Tensor,
    skip_PH: Tensor,
    where_BK: Tensor | None = None,
) -> Tensor:
    """Return y_PBHKV at the positions `where_BK`, or at all; differentiable in all others."""
    if where_BK is None and not use_triton(v_PBHLV):
        return plain.state_space_dual(c_PBLN, b_PBLN, v_PBHLV, delta_PBHL, g_PBHL, skip_PH)
    return by_gates.state_space_dual(c_PBLN, b_PBLN, v_PBHLV, delta_PBHL, g_PBHL, skip_PH, where_BK)
