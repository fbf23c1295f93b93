"""Functions for kernels that treat each row of x (P, R, D) separately but sum a parameter's
gradient over the rows.

The rows of a member are cut into blocks; one program walks through a block and writes its share of
the sum, and a second kernel adds up the shares. The blocks depend only on the member itself, and
the shares are added in a fixed order, so the bits of a gradient depend neither on the other members
nor on which program ends first.

Shapes: P population, R rows of one member, N blocks, D width, G sums.
"""

# A kernel's parameters have Triton's types, which Python's checker cannot know.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, var-annotated"

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

# Enough blocks for about four programs on each of the H200's 132 multiprocessors if there is only
# one member.
MOST_BLOCKS = 512
# A share costs as much traffic as two rows (written, read); over 32 rows or more that is at most a
# few per cent.
LEAST_ROWS = 32
# In the adding kernel, 32 floats are one cache line of 128 bytes; 128 shares of them are 32 floats
# for each of 128 threads.
SHARES, COLUMNS = 128, 32


def as_rows(x: Tensor) -> Tensor:
    """Return x (P, ..., D) as (P, R, D) with a dense last axis; a view if the strides allow it."""
    population, *between, width = x.shape
    x_PRD = x.reshape(population, math.prod(between), width)
    return x_PRD if x_PRD.stride(2) == 1 or width == 1 else x_PRD.contiguous()


def rows_per_block(rows: int, tile: int) -> int:
    """Return how many rows a program sums over: a multiple of `tile`, the rows it takes at once."""
    return triton.cdiv(max(LEAST_ROWS, triton.cdiv(rows, MOST_BLOCKS)), tile) * tile


def sum_blocks(shares_GND: Tensor) -> Tensor:
    """Return the sum over N of a contiguous tensor, (G, D), always in the same order."""
    groups, shares, width = shares_GND.shape
    sums_GD = torch.empty(groups, width, device=shares_GND.device, dtype=torch.float32)
    grid = (groups * triton.cdiv(width, COLUMNS),)
    _sum_blocks[grid](
        shares_GND, sums_GD, shares, width, SHARES=SHARES, COLUMNS=COLUMNS, num_warps=4
    )
    return sums_GD


@triton.jit
def _sum_blocks(shares_ptr, sums_ptr, shares, width, SHARES: tl.constexpr, COLUMNS: tl.constexpr):
    parts = tl.cdiv(width, COLUMNS)
    group = (tl.program_id(0) // parts).to(tl.int64)
    column = (tl.program_id(0) % parts) * COLUMNS + tl.arange(0, COLUMNS)
    shares_ptr += group * shares * width
    total = tl.zeros([SHARES, COLUMNS], dtype=tl.float32)
    for start in range(0, shares, SHARES):
        share = start + tl.arange(0, SHARES)
        inside = (share < shares)[:, None] & (column < width)[None, :]
        total += tl.load(
            shares_ptr + share[:, None] * width + column[None, :], mask=inside, other=0.0
        )
    tl.store(sums_ptr + group * width + column, tl.sum(total, axis=0), mask=column < width)
