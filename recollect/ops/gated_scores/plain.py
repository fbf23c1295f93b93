"""Linear attention whose scores have a gate per row and one per column:
retention, state space duality, xLSTM's memory.

    w_ij = (q_i . k_j) exp(row_i + column_j) for j <= i, plus skip where i = j
    y_i = sum_j w_ij v_j        total_i = sum_j w_ij

Shapes: P population, B batch, H heads, G = H or 1 (queries and keys that all heads share), L
length, K queries (one at each position, or fewer, each with its own position), D channels of a key,
E of a value. The gates are logarithms in float64: as running sums of decays they are large and
their differences small, and in float32 a decay of e^-1 per step would be wrong by 1e-5 after 200
steps. row_i + column_j must be of moderate size for j <= i.
"""

import math

import torch
from torch import Tensor


def gated_scores(
    q_PBGKD: Tensor,
    k_PBGLD: Tensor,
    v_PBHLE: Tensor,
    row_PBHK: Tensor,
    column_PBHL: Tensor,
    skip_PH: Tensor | None,
    where_BK: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """y_PBHKE and total_PBHK."""
    position_L = torch.arange(k_PBGLD.shape[-2], device=k_PBGLD.device)
    distance_BKL = (position_L[None] if where_BK is None else where_BK)[..., None] - position_L
    log_PBHKL = (row_PBHK[..., None] + column_PBHL[..., None, :]).masked_fill(
        distance_BKL[:, None] < 0, -math.inf
    )
    weights_PBHKL = (q_PBGKD @ k_PBGLD.transpose(-1, -2)) * log_PBHKL.exp().to(q_PBGKD.dtype)
    if skip_PH is not None:
        weights_PBHKL = (
            weights_PBHKL + (distance_BKL == 0)[:, None] * skip_PH[:, None, :, None, None]
        )
    return weights_PBHKL @ v_PBHLE, weights_PBHKL.sum(-1)
