"""Retention with the whole matrix of all positions."""

import math

import torch
from torch import Tensor


def retention(q_PBHLD: Tensor, k_PBHLD: Tensor, v_PBHLE: Tensor) -> Tensor:
    """o_PBHLE."""
    return retained_scores(q_PBHLD, k_PBHLD) @ v_PBHLE


def retained_scores(q_PBHLD: Tensor, k_PBHLD: Tensor) -> Tensor:
    """(P, B, H, L, L), zero above the diagonal."""
    scores_PBHLL = q_PBHLD @ k_PBHLD.transpose(-1, -2)
    heads, length = scores_PBHLL.shape[2:4]
    return scores_PBHLL * _decays(heads, length, like=scores_PBHLL)


def log_gamma(heads: int, device: torch.device) -> Tensor:
    """Return the logarithm of each head's decay, (H,), in float64."""
    return torch.log1p(-(2.0 ** (-5 - torch.arange(heads, dtype=torch.float64, device=device))))


def _decays(heads: int, length: int, like: Tensor) -> Tensor:
    """Return gamma_h^(i-j) on and below the diagonal, zero above: (H, L, L)."""
    position = torch.arange(length, dtype=torch.float64, device=like.device)
    distance_LL = position[:, None] - position
    exponent_HLL = log_gamma(heads, like.device)[:, None, None] * distance_LL
    return exponent_HLL.masked_fill(distance_LL < 0, -math.inf).exp().to(like.dtype)
