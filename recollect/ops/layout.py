"""Views of a sequence: heads, single positions, and rotary positions.

Shapes: P population, B batch, L length, K positions, H heads, D width or channels of a head,
E = H D channels of all heads. A head is a block of neighbouring channels.
"""

import torch
from torch import Tensor


def split_heads(x_PBLE: Tensor, heads: int) -> Tensor:
    """Return x_PBHLD, a view."""
    return x_PBLE.unflatten(-1, (heads, -1)).transpose(2, 3)


def merge_heads(x_PBHLD: Tensor) -> Tensor:
    """Return x_PBLE, the inverse of `split_heads`."""
    return x_PBHLD.transpose(2, 3).flatten(3)


def at_positions(x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
    """Return x_PBKD: some positions of each row, the same for all members, or (where_PBK) separate
    ones for each member.
    """
    return x_PBLD.gather(2, places(where_BK, x_PBLD))


def places(where_BK: Tensor, like_PBLD: Tensor) -> Tensor:
    """Return the index for `gather` and `scatter` along the positions of such a tensor."""
    return where_BK[..., None].expand(like_PBLD.shape[0], -1, -1, like_PBLD.shape[3])


def rotate(x: Tensor, base: float = 10_000.0, start: int = 0) -> Tensor:
    """Apply rotary positions (Su et al. 2021) to x (..., L, D), L positions from `start` on.

    Pairs of channels (i, i + D/2) turn by an angle that grows with the position, so that a score of
    two positions depends only on their distance.
    """
    length, width = x.shape[-2:]
    half = width // 2
    frequency = base ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
    position_L1 = torch.arange(start, start + length, device=x.device, dtype=torch.float64)[:, None]
    angle = position_L1 * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
