"""The memory's read with the whole matrix of all positions, normalised."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

EPS = 1e-6


def matrix_memory(
    q_PBHLD: Tensor, k_PBHLD: Tensor, v_PBHLD: Tensor, i_PBHL: Tensor, f_PBHL: Tensor
) -> Tensor:
    """h_PBHLD."""
    return normalised_scores(q_PBHLD, k_PBHLD, i_PBHL, f_PBHL) @ v_PBHLD


def normalised_scores(q_PBHLD: Tensor, k_PBHLD: Tensor, i_PBHL: Tensor, f_PBHL: Tensor) -> Tensor:
    """Return S divided by row as in the equations, (P, B, H, L, L)."""
    scores_PBHLL = q_PBHLD @ k_PBHLD.transpose(-1, -2)
    length = scores_PBHLL.shape[-1]
    past_PBHL = F.logsigmoid(f_PBHL).cumsum(-1)
    future_LL = torch.ones(length, length, dtype=torch.bool, device=scores_PBHLL.device).triu(1)
    # In this order the diagonal is exactly i, however large the sums of forget gates have become.
    log_PBHLL = past_PBHL[..., None] - past_PBHL[..., None, :] + i_PBHL[..., None, :]
    log_PBHLL = log_PBHLL.masked_fill(future_LL, -math.inf)
    m_PBHL = log_PBHLL.amax(-1).clamp(min=0)
    gated_PBHLL = scores_PBHLL * (log_PBHLL - m_PBHL[..., None]).exp()
    return gated_PBHLL / divisor(gated_PBHLL.sum(-1), m_PBHL)[..., None]


def divisor(total: Tensor, m: Tensor) -> Tensor:
    """Return the divisor of the scaled read: at least exp(-m), which is 1 before scaling."""
    return torch.maximum(total.abs(), torch.exp(-m)) + EPS
