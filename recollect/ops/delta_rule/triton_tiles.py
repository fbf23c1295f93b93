"""What the kernels of the delta rule share: addresses of tiles, and the decays inside a chunk.

Names and shapes as in triton_kernel.py.
"""

# A kernel's parameters have Triton's types, which Python's checker cannot know.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, var-annotated, misc, index"

import triton
import triton.language as tl


@triton.jit
def place(sequence, heads, batch):
    """Member, row and head."""
    return sequence // heads // batch, sequence // heads % batch, sequence % heads


@triton.jit
def head_channels(start, h, heads, KEYS: tl.constexpr, VALUES: tl.constexpr):
    """Where the channels of a head's q, k and v are in a row of all channels."""
    q_ptr = start + h * KEYS
    return q_ptr, q_ptr + heads * KEYS, start + 2 * heads * KEYS + h * VALUES


@triton.jit
def _tile(
    start, row_stride, first_row, rows, first, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Pointers of a tile that starts at row `first_row` and column `first`,
    and which of them exist.
    """
    row, column = first_row + tl.arange(0, ROWS), first + tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    return start + row[:, None] * row_stride + column[None, :], inside


@triton.jit
def load_tile(
    start, row_stride, first_row, rows, first, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    pointers, inside = _tile(start, row_stride, first_row, rows, first, width, ROWS, COLUMNS)
    return tl.load(pointers, mask=inside, other=0.0)


@triton.jit
def store_tile(
    start, row_stride, first_row, rows, first, width, x, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    pointers, inside = _tile(start, row_stride, first_row, rows, first, width, ROWS, COLUMNS)
    tl.store(pointers, x.to(start.dtype.element_ty), mask=inside)


@triton.jit
def square_at(squares_ptr, number: tl.constexpr, tiles, tile, STEPS: tl.constexpr):
    """Pointers of the square of one kind and chunk; `tile` counts the chunks of all sequences, of
    which there are `tiles`.
    """
    step = tl.arange(0, STEPS)
    start = squares_ptr + (number * tiles + tile) * STEPS * STEPS
    return start + step[:, None] * STEPS + step[None, :]


@triton.jit
def root_at(roots_ptr, number: tl.constexpr, tiles, tile, STEPS: tl.constexpr):
    return roots_ptr + (number * tiles + tile) * STEPS + tl.arange(0, STEPS)


@triton.jit
def load_scalars(start, heads, chunk, length, ahead: tl.constexpr, STEPS: tl.constexpr):
    """One number per position of a chunk, `ahead` positions later but not beyond the chunk; zeros
    where there is nothing.
    """
    step = tl.arange(0, STEPS) + ahead
    position = chunk * STEPS + step
    return tl.load(
        start + position * heads, mask=(step < STEPS) & (position < length), other=0.0
    ).to(tl.float32)


@triton.jit
def decay_matrix(g_ptr, heads, chunk, length, STEPS: tl.constexpr, GATED: tl.constexpr):
    """What is left at i of a write at j; nothing above the diagonal."""
    i, j = tl.arange(0, STEPS)[:, None], tl.arange(0, STEPS)[None, :]
    decay = tl.where(i >= j, 1.0, 0.0)
    if GATED:
        g = load_scalars(g_ptr, heads, chunk, length, 0, STEPS)
        # Sums over j+1..i, each added up on its own: a difference of sums from the start would
        # cancel where decay is strong.
        decay = tl.where(i >= j, tl.exp(tl.cumsum(tl.where(i > j, g[:, None], 0.0), axis=0)), 0.0)
    return decay


@triton.jit
def chunk_borders(g_ptr, heads, chunk, length, STEPS: tl.constexpr, GATED: tl.constexpr):
    """What is left at each position of the chunk's start, at its end of a write at each position,
    and there of its start.
    """
    since = tl.full((STEPS,), 1.0, tl.float32)
    until = since
    whole = tl.full((), 1.0, tl.float32)
    if GATED:
        g = load_scalars(g_ptr, heads, chunk, length, 0, STEPS)
        since, whole = tl.exp(tl.cumsum(g, axis=0)), tl.exp(tl.sum(g, axis=0))
        until = tl.exp(
            tl.cumsum(load_scalars(g_ptr, heads, chunk, length, 1, STEPS), axis=0, reverse=True)
        )
    return since, until, whole
