"""Rotary positions (Su et al.

2021): pairs of channels (i, i + D/2) turned by an angle that grows with the position.
"""

import torch
from torch import Tensor


def rotate(x_MHLD: Tensor, base: float = 10_000.0, start: int = 0) -> Tensor:
    """Rotate the last axis of (..., L, D), L positions from `start` on; a score of two depends on
    their distance alone.
    """
    length, width = x_MHLD.shape[-2:]
    half = width // 2
    frequency = base ** (-torch.arange(half, device=x_MHLD.device, dtype=torch.float64) / half)
    angle = (
        torch.arange(start, start + length, device=x_MHLD.device, dtype=torch.float64)[:, None]
        * frequency
    )
    cos, sin = angle.cos().to(x_MHLD.dtype), angle.sin().to(x_MHLD.dtype)
    first, second = x_MHLD[..., :half], x_MHLD[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
