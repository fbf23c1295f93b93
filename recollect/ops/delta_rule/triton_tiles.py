"""Functions that the kernels of the delta rule share: addresses of tiles, and decays inside a
chunk.

Names and shapes as in triton_kernel.py.
"""

# A kernel's parameters have Triton's types, which Python's checker cannot know.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, var-annotated, misc, index"

import triton
import triton.language as tl


@triton.jit
def place(sequence, heads, batch):
    """Return member, row and head."""
    return sequence // heads // batch, sequence // heads % batch, sequence % heads


@triton.jit
def head_channels(start, h, heads, KEYS: tl.constexpr, VALUES: tl.constexpr):
    """Return where the channels of a head's q, k and v are in a row of all channels."""
    q_ptr = start + h * KEYS
    return q_ptr, q_ptr + heads * KEYS, start + 2 * heads * KEYS + h * VALUES


@triton.jit
def _tile(
    start, row_stride, first_row, rows, first, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Return the pointers of a tile that starts at row `first_row` and column `first`, and which of
    them are valid.
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
    """Return the pointers of the square of one kind and chunk; `tile` is the index among the chunks
    of all sequences, `tiles` their number.
    """
    step = tl.arange(0, STEPS)
    start = squares_ptr + (number * tiles + tile) * STEPS * STEPS
    return start + step[:, None] * STEPS + step[None, :]


@triton.jit
def root_at(roots_ptr, number: tl.constexpr, tiles, tile, STEPS: tl.constexpr):
    return roots_ptr + (number * tiles + tile) * STEPS + tl.arange(0, STEPS)


@triton.jit
def load_scalars(start, heads, chunk, length, ahead: tl.constexpr, STEPS: tl.constexpr):
    """Load one number per position of a chunk, `ahead` positions later but not beyond the chunk;
    zeros outside.
    """
    step = tl.arange(0, STEPS) + ahead
    position = chunk * STEPS + step
    return tl.load(
        start + position * heads, mask=(step < STEPS) & (position < length), other=0.0
    ).to(tl.float32)


@triton.jit
def decay_matrix(g_ptr, heads, chunk, length, STEPS: tl.constexpr, GATED: tl.constexpr):
    """Return the fraction of a write at j that remains at i; zero above the diagonal."""
    i, j = tl.arange(0, STEPS)[:, None], tl.arange(0, STEPS)[None, :]
    decay = tl.where(i >= j, 1.0, 0.0)
    if GATED:
        g = load_scalars(g_ptr, heads, chunk, length, 0, STEPS)
        # Sums over j+1..i, each added up separately: a difference of sums from the start would
        # cancel where the decay is strong.
        decay = tl.where(i >= j, tl.exp(tl.cumsum(tl.where(i > j, g[:, None], 0.0), axis=0)), 0.0)
    return decay


@triton.jit
def chunk_borders(g_ptr, heads, chunk, length, STEPS: tl.constexpr, GATED: tl.constexpr):
    """Return the fractions that remain: at each position of the chunk's initial state, at its end
    of a write at each position, and at its end of the initial state.
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
