"""Sizes of the attention kernels' tiles, and which sequences a program can hold: the kernel for
short sequences has whole ones, the long kernel walks through tiles of them.

Shapes as in triton_kernel.py: K queries, L positions, D channels of a head.
"""

import torch

from recollect.ops.triton_tiles import padded

# Scores and the random numbers of a mask must fit into the registers of one program.
LONGEST, MOST_MASKED = 128, 64 * 64
WIDEST_SHORT, WIDEST_LONG = 128, 256


def most_positions(block_width: int) -> int:
    """Return the most positions of a tile of the long kernel."""
    return 64 if block_width <= 128 else 32


def fits_short(
    queries: int, length: int, width: int, is_masked: bool, dtype: torch.dtype, shared: int
) -> bool:
    """Whether one program can hold a sequence with so many bytes of shared memory."""
    if is_masked and max(16, queries) * length > MOST_MASKED:
        return False
    is_small = length <= LONGEST and width <= WIDEST_SHORT
    return is_small and short_bytes(queries, length, width, dtype) <= shared


def short_bytes(queries: int, length: int, width: int, dtype: torch.dtype) -> int:
    """Return the most shared memory of a program, the backward's: q, dy, k, v and the gradient of
    the scores.
    """
    rows, keys, columns = map(padded, (queries, length, width))
    return (2 * (rows + keys) * columns + rows * keys) * dtype.itemsize


def fits_long(width: int, dtype: torch.dtype, shared: int) -> bool:
    """Whether a program of the long kernel can hold its tiles."""
    return width <= WIDEST_LONG and long_bytes(width, dtype) <= shared


def long_bytes(width: int, dtype: torch.dtype) -> int:
    """Return the most shared memory of a program: six tiles, of q, dy, k, v and their products, or
    the scores instead of one of them.
    """
    columns = padded(width)
    most = most_positions(columns)
    return (5 * columns + max(columns, most)) * most * dtype.itemsize
