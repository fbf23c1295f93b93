"""From channels to heads and back; a head is a block of neighbouring channels.

Shapes: P population, B batch, L length, H heads, D channels of a head, E = H * D channels of all
heads.
"""

from torch import Tensor


def split_heads(x_PBLE: Tensor, heads: int) -> Tensor:
    """x_PBHLD, a view."""
    return x_PBLE.unflatten(-1, (heads, -1)).transpose(2, 3)


def merge_heads(x_PBHLD: Tensor) -> Tensor:
    """x_PBLE: what `split_heads` came from."""
    return x_PBHLD.transpose(2, 3).flatten(3)
