"""The size of a tile's axis in kernels that multiply matrices."""

import triton


def padded(size: int) -> int:
    """Return the next power of two, and at least 16, which is the least that a product takes."""
    return max(16, int(triton.next_power_of_2(size)))
