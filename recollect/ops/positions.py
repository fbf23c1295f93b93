"""Some positions of each row, the same for all members.

Shapes: P population, B batch, L length, K positions, D width.
"""

from torch import Tensor


def at_positions(x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
    """x_PBKD."""
    return x_PBLD.gather(2, places(where_BK, x_PBLD))


def places(where_BK: Tensor, like_PBLD: Tensor) -> Tensor:
    """The same, as what `gather` and `scatter` along the positions of such a tensor take."""
    return where_BK[None, :, :, None].expand(like_PBLD.shape[0], -1, -1, like_PBLD.shape[3])
