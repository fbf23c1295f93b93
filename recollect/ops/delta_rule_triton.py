"""The delta rule on queries and keys of length one, as four kernels that walk through chunks of 64
positions.

    S_t = exp(g_t) (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T          o_t = S_t^T q_t / sqrt(D)

where q and k are the given ones, divided by sqrt(|.|^2 + eps).

Shapes: P population, B batch, L length, H heads, D channels of a key, E of a value, C chunks of T
positions; M = P B H sequences; F = H (2 D + E) channels: those of q, of k and of v, one head after
the other in each.

Inside a chunk, where S is the memory before it, and since_i, until_j and decay_ij are what is left
at i of the chunk's start, at its end of a write at j, and at i of a write at j:

    N = strictly_lower(k k^T decay)      A = lower(q k^T decay) / sqrt(D)      X = v - since k S      Y = (I + N beta)^-1 X
    U = beta Y          o = A U + since q S / sqrt(D)          S' = since_T S + k^T until U

`_squares` makes A and H = N (I + beta N)^-1, with which Y = X - H beta X, all chunks side by side:
by forward substitution in blocks of 16, which two products at a time then join. (No power of N is
formed: those explode where keys repeat.) `_walk` goes from chunk to chunk with some columns of S,
which it writes at every border and reads back from the cache. Backward, `_walk_back` goes the other
way with dS, and `_finish` does the rest, all chunks side by side:

    dU = A^T do + until k dS'          dR = dU - H^T beta dU          dv = beta dR          dbeta = sum_e dR Y
    dS = since_T dS' + q^T since do / sqrt(D) - k^T beta since dR
    dA = lower(do U^T)          dN = -strictly_lower(beta dR U^T)          a = dA decay / sqrt(D)          n = dN decay
    dq = since do S^T / sqrt(D) + a k          dk = a^T q + (n + n^T) k + until U dS'^T - beta since dR S^T
    dg_t = sum_{i>=t>j} (dA A + dN N)_ij + (what since, until and since_T contribute)

and at last through the norms, x the given q or k and r = 1 / sqrt(|x|^2 + eps): dx = r (dq - q
sum_d q dq). These sums need no pass over d: o is linear in q, so sum_d q dq = sum_e o do, and in
the same way sum_d k dk = 2 sum_e dR U - beta sum_e dR v.

Products take their operands in the dtype of the input, bfloat16 or float32, and add up in float32;
what is between them is float32. Full float32 is three products of tf32 parts: on the plain units
the squares would not fit into the registers. r is a factor of rows, so that q and k go into
products as they are.
"""

# A kernel's parameters have Triton's types, which Python's checker cannot know.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, var-annotated, misc, index"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.dispatch import product_precision

# one warpgroup's product has 64 rows; squares of 64 x 64 are then 32 registers of each of 128
# threads
CHUNK = 64
BLOCK = 16  # of the substitution; must divide a chunk


def unit_delta_rule(
    qkv_PBLF: Tensor, beta_PBLH: Tensor, g_PBLH: Tensor | None, keys: int, heads: int, eps: float
) -> Tensor:
    """o_PBLHE, in the dtype of qkv; differentiable in all tensors.

    `keys` is D; eps must be positive.
    """
    return _Rule.apply(qkv_PBLF, beta_PBLH, g_PBLH, keys, heads, eps)


class _Rule(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, beta: Tensor, g: Tensor | None, keys: int, heads: int, eps: float
    ) -> Tensor:
        qkv = qkv if qkv.stride(-1) == 1 else qkv.contiguous()
        beta, g = beta.contiguous(), None if g is None else g.contiguous()
        population, batch, length, channels = qkv.shape
        values = channels // heads - 2 * keys
        steps = min(CHUNK, max(BLOCK, triton.next_power_of_2(length)))
        chunks, sequences = triton.cdiv(length, steps), population * batch * heads
        precision = product_precision("tf32x3")
        ctx.sizes = {"KEYS": keys, "VALUES": values, "STEPS": steps, "PRECISION": precision}
        ctx.sizes |= {"GATED": g is not None, "SINGLE": chunks == 1}
        ctx.scalars = (*qkv.stride()[:3], batch, heads, length, chunks, keys**-0.5)
        ctx.eps = eps
        o = qkv.new_empty(population, batch, length, heads, values)
        squares = qkv.new_empty(
            3 if g is not None else 2, sequences, chunks, steps, steps
        )  # A, H and, for dg, N
        roots = qkv.new_empty(2, sequences, chunks, steps, dtype=torch.float32)  # of q and of k
        solved = qkv.new_empty(sequences, chunks * steps, values)  # Y
        memories = qkv.new_empty(sequences, chunks - 1, keys, values)
        if o.numel():
            _squares[(sequences * chunks,)](
                qkv, beta, _or(g, beta), squares, roots, *ctx.scalars, eps, sequences,
                **ctx.sizes, BLOCK=BLOCK, BLOCK_KEYS=_padded(keys, 64), num_warps=4, num_stages=1,
            )  # fmt: skip
            grid, columns = _by_columns(sequences, keys, values)
            _walk[grid](
                qkv,
                beta,
                _or(g, beta),
                squares,
                roots,
                solved,
                memories,
                o,
                *ctx.scalars,
                sequences,
                **ctx.sizes,
                **columns,
            )
        ctx.save_for_backward(qkv, beta, g, squares, roots, solved, memories, o)
        return o

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        qkv, beta, g, squares, roots, solved, memories, o = ctx.saved_tensors
        do = grads[0].contiguous()
        sequences = solved.shape[0]
        dqkv = torch.empty(qkv.shape, dtype=qkv.dtype, device=qkv.device)
        dbeta, dg = torch.empty_like(beta), None if g is None else torch.empty_like(g)
        reading, dmemories = torch.empty_like(solved), torch.empty_like(memories)  # dR, dS'
        if o.numel():
            keys, values = ctx.sizes["KEYS"], ctx.sizes["VALUES"]
            grid, columns = _by_columns(sequences, keys, values)
            _walk_back[grid](
                qkv, beta, _or(g, beta), squares, roots, reading, dmemories, do, dqkv,
                *ctx.scalars, sequences, **ctx.sizes, **columns,
            )  # fmt: skip
            _finish[(sequences * squares.shape[2],)](
                qkv, beta, _or(g, beta), squares, roots, solved, reading, memories, dmemories, o, do,
                dqkv, dbeta, _or(dg, dbeta), *ctx.scalars, sequences, **ctx.sizes, **_by_chunks(**ctx.sizes),
            )  # fmt: skip
        return dqkv, dbeta, dg, None, None, None


def _or(g: Tensor | None, unread: Tensor) -> Tensor:
    return unread if g is None else g


def _padded(width: int, most: int) -> int:
    return min(most, max(16, triton.next_power_of_2(width)))


def _by_columns(sequences: int, keys: int, values: int) -> tuple[tuple[int], dict[str, int]]:
    """One program for each sequence and block of value columns, for the walks.

    With 4 warps a tile of 64 x 64 is 32 registers of a thread. Two or three of them and the
    operands on their way just fit, with 16 to 64 KB of shared memory, so that at least two programs
    run beside each other: while one waits at a chunk's border the other computes. Nothing is
    pipelined (num_stages): the memory of a chunk is not there before the chunk.
    """
    columns = _padded(values, 64)
    shape = {"BLOCK_KEYS": _padded(keys, 64), "COLUMNS": columns, "num_warps": 4, "num_stages": 1}
    return (sequences * triton.cdiv(values, columns),), shape


def _by_chunks(KEYS: int, VALUES: int, SINGLE: bool, **_: Any) -> dict[str, int]:
    """One program for each chunk, for `_finish`: its squares and sums of 64 x 64 fill the registers
    of 8 warps.

    Without memories 4 are faster: two programs run beside each other. Blocks of 32 keys out of more
    must not be: of a product with a transposed square and 32 columns in a loop Triton 3.6 takes
    addresses beyond the shared memory (docs/decisions/triton-faults-on-hopper.md).
    """
    blocks = {"BLOCK_KEYS": _padded(KEYS, 64), "BLOCK_VALUES": _padded(VALUES, 64)}
    return {**blocks, "num_warps": 4 if SINGLE else 8, "num_stages": 1}


# ---- tiles ----


@triton.jit
def _place(sequence, heads, batch):
    """Member, row and head."""
    return sequence // heads // batch, sequence // heads % batch, sequence % heads


@triton.jit
def _tile(
    start, row_stride, first_row, rows, first, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Pointers of a tile that starts at row `first_row` and column `first`, and which of them
    exist.
    """
    row, column = first_row + tl.arange(0, ROWS), first + tl.arange(0, COLUMNS)
    return start + row[:, None] * row_stride + column[None, :], (row < rows)[:, None] & (
        column < width
    )[None, :]


@triton.jit
def _load(
    start, row_stride, first_row, rows, first, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    pointers, inside = _tile(start, row_stride, first_row, rows, first, width, ROWS, COLUMNS)
    return tl.load(pointers, mask=inside, other=0.0)


@triton.jit
def _store(
    start, row_stride, first_row, rows, first, width, x, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    pointers, inside = _tile(start, row_stride, first_row, rows, first, width, ROWS, COLUMNS)
    tl.store(pointers, x.to(start.dtype.element_ty), mask=inside)


@triton.jit
def _square(
    squares_ptr, number: tl.constexpr, sequences, sequence, chunks, chunk, STEPS: tl.constexpr
):
    start = squares_ptr + ((number * sequences + sequence) * chunks + chunk) * STEPS * STEPS
    step = tl.arange(0, STEPS)
    return start + step[:, None] * STEPS + step[None, :]


@triton.jit
def _root(roots_ptr, number: tl.constexpr, sequences, sequence, chunks, chunk, STEPS: tl.constexpr):
    return (
        roots_ptr + ((number * sequences + sequence) * chunks + chunk) * STEPS + tl.arange(0, STEPS)
    )


@triton.jit
def _scalars(start, heads, chunk, length, ahead: tl.constexpr, STEPS: tl.constexpr):
    """One number per position of a chunk, `ahead` positions later but not beyond the chunk; zeros
    where there is nothing.
    """
    step = tl.arange(0, STEPS) + ahead
    position = chunk * STEPS + step
    return tl.load(
        start + position * heads, mask=(step < STEPS) & (position < length), other=0.0
    ).to(tl.float32)


@triton.jit
def _decay(g_ptr, heads, chunk, length, STEPS: tl.constexpr, GATED: tl.constexpr):
    """What is left at i of a write at j; nothing above the diagonal."""
    i, j = tl.arange(0, STEPS)[:, None], tl.arange(0, STEPS)[None, :]
    decay = tl.where(i >= j, 1.0, 0.0)
    if GATED:
        g = _scalars(g_ptr, heads, chunk, length, 0, STEPS)
        # Sums over j+1..i, each added up on its own: a difference of sums from the start would
        # cancel where decay is strong.
        decay = tl.where(i >= j, tl.exp(tl.cumsum(tl.where(i > j, g[:, None], 0.0), axis=0)), 0.0)
    return decay


@triton.jit
def _borders(g_ptr, heads, chunk, length, STEPS: tl.constexpr, GATED: tl.constexpr):
    """What is left at each position of the chunk's start, at its end of a write at each position,
    and there of its start.
    """
    since = tl.full((STEPS,), 1.0, tl.float32)
    until = since
    whole = tl.full((), 1.0, tl.float32)
    if GATED:
        g = _scalars(g_ptr, heads, chunk, length, 0, STEPS)
        since, whole = tl.exp(tl.cumsum(g, axis=0)), tl.exp(tl.sum(g, axis=0))
        until = tl.exp(
            tl.cumsum(_scalars(g_ptr, heads, chunk, length, 1, STEPS), axis=0, reverse=True)
        )
    return since, until, whole


# ---- forward ----


@triton.jit
def _squares(
    qkv_ptr, beta_ptr, g_ptr, squares_ptr, roots_ptr, x_p, x_b, x_l, batch, heads, length, chunks, scale, eps, sequences,
    KEYS: tl.constexpr, VALUES: tl.constexpr, STEPS: tl.constexpr, GATED: tl.constexpr, SINGLE: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK: tl.constexpr, BLOCK_KEYS: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    sequence, chunk = program // chunks, (program % chunks).to(tl.int32)
    p, b, h = _place(sequence, heads, batch)
    q_ptr = qkv_ptr + p * x_p + b * x_b + h * KEYS
    k_ptr = q_ptr + heads * KEYS
    scores = tl.zeros((STEPS, STEPS), tl.float32)
    overlap = tl.zeros((STEPS, STEPS), tl.float32)
    q_square = tl.zeros((STEPS,), tl.float32)
    k_square = tl.zeros((STEPS,), tl.float32)
    for first in range(0, KEYS, BLOCK_KEYS):
        q = _load(q_ptr, x_l, chunk * STEPS, length, first, KEYS, STEPS, BLOCK_KEYS)
        k = _load(k_ptr, x_l, chunk * STEPS, length, first, KEYS, STEPS, BLOCK_KEYS)
        scores = tl.dot(q, tl.trans(k), scores, input_precision=PRECISION)
        overlap = tl.dot(k, tl.trans(k), overlap, input_precision=PRECISION)
        q_square += tl.sum(q.to(tl.float32) * q.to(tl.float32), axis=1)
        k_square += tl.sum(k.to(tl.float32) * k.to(tl.float32), axis=1)
    q_root, k_root = 1 / tl.sqrt(q_square + eps), 1 / tl.sqrt(k_square + eps)
    tl.store(_root(roots_ptr, 0, sequences, sequence, chunks, chunk, STEPS), q_root)
    tl.store(_root(roots_ptr, 1, sequences, sequence, chunks, chunk, STEPS), k_root)
    decay = (
        _decay(g_ptr + (p * batch + b) * length * heads + h, heads, chunk, length, STEPS, GATED)
        * k_root[None, :]
    )
    kind = squares_ptr.dtype.element_ty
    scores = scores * (q_root * scale)[:, None] * decay
    tl.store(_square(squares_ptr, 0, sequences, sequence, chunks, chunk, STEPS), scores.to(kind))
    i, j = tl.arange(0, STEPS)[:, None], tl.arange(0, STEPS)[None, :]
    overlap = tl.where(i > j, overlap * k_root[:, None] * decay, 0.0)
    if GATED:
        tl.store(
            _square(squares_ptr, 2, sequences, sequence, chunks, chunk, STEPS), overlap.to(kind)
        )
    beta = _scalars(beta_ptr + (p * batch + b) * length * heads + h, heads, chunk, length, 0, STEPS)
    inverse = _inside_blocks(overlap, beta, STEPS, BLOCK)
    if STEPS > BLOCK:
        inverse = _joined(inverse, overlap, beta, BLOCK, STEPS, PRECISION)
    if STEPS > 2 * BLOCK:
        inverse = _joined(inverse, overlap, beta, 2 * BLOCK, STEPS, PRECISION)
    tl.store(_square(squares_ptr, 1, sequences, sequence, chunks, chunk, STEPS), inverse.to(kind))


@triton.jit
def _inside_blocks(overlap, beta, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """H = N - N beta H of the blocks on the diagonal alone, row by row, all blocks at once."""
    BLOCKS: tl.constexpr = STEPS // BLOCK
    number = tl.arange(0, BLOCKS)
    mine = (number[:, None] == number[None, :])[:, None, :, None]
    row, column = tl.arange(0, BLOCK)[None, :, None], tl.arange(0, BLOCK)[None, None, :]
    blocks = tl.sum(
        tl.where(mine, tl.reshape(overlap, (BLOCKS, BLOCK, BLOCKS, BLOCK)), 0.0), axis=2
    )
    turned = tl.reshape(tl.trans(overlap) * beta[:, None], (BLOCKS, BLOCK, BLOCKS, BLOCK))
    turned = tl.sum(
        tl.where(mine, turned, 0.0), axis=2
    )  # so that a row of N beta lies where the rows of H it meets are
    for i in range(1, BLOCK):
        factors = tl.sum(tl.where(column == i, turned, 0.0), axis=2)
        known = tl.sum(factors[:, :, None] * blocks, axis=1)
        blocks = tl.where(row == i, blocks - known[:, None, :], blocks)
    return tl.reshape(tl.where(mine, blocks[:, :, None, :], 0.0), (STEPS, STEPS))


@triton.jit
def _joined(
    inverse, overlap, beta, SIZE: tl.constexpr, STEPS: tl.constexpr, PRECISION: tl.constexpr
):
    """H of blocks twice the size: (I - H beta) N (I - beta H) between the two halves of each."""
    i, j = tl.arange(0, STEPS)[:, None], tl.arange(0, STEPS)[None, :]
    between = tl.where((i // (2 * SIZE) == j // (2 * SIZE)) & (i // SIZE > j // SIZE), overlap, 0.0)
    one = tl.where(i == j, 1.0, 0.0)
    left = tl.dot(one - inverse * beta[None, :], between, input_precision=PRECISION)
    return inverse + tl.dot(left, one - inverse * beta[:, None], input_precision=PRECISION)


@triton.jit
def _walk(
    qkv_ptr, beta_ptr, g_ptr, squares_ptr, roots_ptr, solved_ptr, memories_ptr, o_ptr,
    x_p, x_b, x_l, batch, heads, length, chunks, scale, sequences,
    KEYS: tl.constexpr, VALUES: tl.constexpr, STEPS: tl.constexpr, GATED: tl.constexpr, SINGLE: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_KEYS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Y, o and the memories before each chunk but the first."""
    parts: tl.constexpr = (VALUES + COLUMNS - 1) // COLUMNS
    program = tl.program_id(0).to(tl.int64)
    sequence, first = program // parts, (program % parts).to(tl.int32) * COLUMNS
    p, b, h = _place(sequence, heads, batch)
    q_ptr = qkv_ptr + p * x_p + b * x_b + h * KEYS
    k_ptr = q_ptr + heads * KEYS
    v_ptr = qkv_ptr + p * x_p + b * x_b + 2 * heads * KEYS + h * VALUES
    row = (p * batch + b) * length * heads + h  # of beta, g and, times VALUES, o
    o_ptr += row * VALUES
    solved_ptr += sequence * chunks * STEPS * VALUES
    kind = qkv_ptr.dtype.element_ty
    for chunk in range(chunks):
        start = chunk * STEPS
        beta = _scalars(beta_ptr + row, heads, chunk, length, 0, STEPS)
        x = _load(v_ptr, x_l, start, length, first, VALUES, STEPS, COLUMNS).to(tl.float32)
        if not SINGLE:
            since, until, whole = _borders(g_ptr + row, heads, chunk, length, STEPS, GATED)
            q_root = tl.load(_root(roots_ptr, 0, sequences, sequence, chunks, chunk, STEPS))
            k_root = tl.load(_root(roots_ptr, 1, sequences, sequence, chunks, chunk, STEPS))
            next_ptr = memories_ptr + (sequence * (chunks - 1) + chunk) * KEYS * VALUES
            memory_ptr = next_ptr - KEYS * VALUES
            before = tl.where(chunk > 0, KEYS, 0)
            asked = tl.zeros((STEPS, COLUMNS), tl.float32)
            recalled = tl.zeros((STEPS, COLUMNS), tl.float32)
            for key in range(0, before, BLOCK_KEYS):
                memory = _load(memory_ptr, VALUES, key, KEYS, first, VALUES, BLOCK_KEYS, COLUMNS)
                k = _load(k_ptr, x_l, start, length, key, KEYS, STEPS, BLOCK_KEYS)
                recalled = tl.dot(k, memory, recalled, input_precision=PRECISION)
                q = _load(q_ptr, x_l, start, length, key, KEYS, STEPS, BLOCK_KEYS)
                asked = tl.dot(q, memory, asked, input_precision=PRECISION)
            x -= recalled * (since * k_root)[:, None]
        inverse = tl.load(_square(squares_ptr, 1, sequences, sequence, chunks, chunk, STEPS))
        y = x - tl.dot(inverse, (x * beta[:, None]).to(kind), input_precision=PRECISION)
        _store(solved_ptr, VALUES, start, chunks * STEPS, first, VALUES, y, STEPS, COLUMNS)
        u = y * beta[:, None]
        scores = tl.load(_square(squares_ptr, 0, sequences, sequence, chunks, chunk, STEPS))
        o = tl.dot(scores, u.to(kind), input_precision=PRECISION)
        if not SINGLE:
            o += asked * (since * q_root * scale)[:, None]
            written = (u * (until * k_root)[:, None]).to(kind)
            # The memory before the next chunk; behind the last one nobody asks for it.
            for key in range(0, tl.where(chunk + 1 < chunks, KEYS, 0), BLOCK_KEYS):
                memory = (
                    _load(memory_ptr, VALUES, key, before, first, VALUES, BLOCK_KEYS, COLUMNS).to(
                        tl.float32
                    )
                    * whole
                )
                k = _load(k_ptr, x_l, start, length, key, KEYS, STEPS, BLOCK_KEYS)
                memory = tl.dot(tl.trans(k), written, memory, input_precision=PRECISION)
                _store(next_ptr, VALUES, key, KEYS, first, VALUES, memory, BLOCK_KEYS, COLUMNS)
            tl.debug_barrier()  # what one thread has written another one reads
        _store(o_ptr, heads * VALUES, start, length, first, VALUES, o, STEPS, COLUMNS)


# ---- backward ----


@triton.jit
def _walk_back(
    qkv_ptr, beta_ptr, g_ptr, squares_ptr, roots_ptr, reading_ptr, dmemories_ptr, do_ptr, dqkv_ptr,
    x_p, x_b, x_l, batch, heads, length, chunks, scale, sequences,
    KEYS: tl.constexpr, VALUES: tl.constexpr, STEPS: tl.constexpr, GATED: tl.constexpr, SINGLE: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_KEYS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """dR, dv and the gradients of the memories after each chunk but the last."""
    parts: tl.constexpr = (VALUES + COLUMNS - 1) // COLUMNS
    program = tl.program_id(0).to(tl.int64)
    sequence, first = program // parts, (program % parts).to(tl.int32) * COLUMNS
    p, b, h = _place(sequence, heads, batch)
    q_ptr = qkv_ptr + p * x_p + b * x_b + h * KEYS
    k_ptr = q_ptr + heads * KEYS
    row = (p * batch + b) * length * heads + h
    do_ptr += row * VALUES
    channels = heads * (2 * KEYS + VALUES)
    dv_ptr = dqkv_ptr + (p * batch + b) * length * channels + 2 * heads * KEYS + h * VALUES
    reading_ptr += sequence * chunks * STEPS * VALUES
    kind = qkv_ptr.dtype.element_ty
    for back in range(chunks):
        chunk = chunks - 1 - back
        start = chunk * STEPS
        beta = _scalars(beta_ptr + row, heads, chunk, length, 0, STEPS)
        do = _load(do_ptr, heads * VALUES, start, length, first, VALUES, STEPS, COLUMNS).to(kind)
        scores = tl.load(_square(squares_ptr, 0, sequences, sequence, chunks, chunk, STEPS))
        du = tl.dot(tl.trans(scores), do, input_precision=PRECISION)
        if not SINGLE:
            since, until, whole = _borders(g_ptr + row, heads, chunk, length, STEPS, GATED)
            q_root = tl.load(_root(roots_ptr, 0, sequences, sequence, chunks, chunk, STEPS))
            k_root = tl.load(_root(roots_ptr, 1, sequences, sequence, chunks, chunk, STEPS))
            dmemory_ptr = dmemories_ptr + (sequence * (chunks - 1) + chunk) * KEYS * VALUES
            next_ptr = dmemory_ptr - KEYS * VALUES
            after = tl.where(back > 0, KEYS, 0)
            written = tl.zeros((STEPS, COLUMNS), tl.float32)
            for key in range(0, after, BLOCK_KEYS):
                dmemory = _load(dmemory_ptr, VALUES, key, KEYS, first, VALUES, BLOCK_KEYS, COLUMNS)
                k = _load(k_ptr, x_l, start, length, key, KEYS, STEPS, BLOCK_KEYS)
                written = tl.dot(k, dmemory, written, input_precision=PRECISION)
            du += written * (until * k_root)[:, None]
        inverse = tl.load(_square(squares_ptr, 1, sequences, sequence, chunks, chunk, STEPS))
        dr = du - tl.dot(
            tl.trans(inverse), (du * beta[:, None]).to(kind), input_precision=PRECISION
        )
        _store(reading_ptr, VALUES, start, chunks * STEPS, first, VALUES, dr, STEPS, COLUMNS)
        dv = dr * beta[:, None]
        _store(dv_ptr, channels, start, length, first, VALUES, dv, STEPS, COLUMNS)
        if not SINGLE:
            asked = (do.to(tl.float32) * (since * q_root * scale)[:, None]).to(kind)
            recalled = (dv * -(since * k_root)[:, None]).to(kind)
            for key in range(0, tl.where(chunk > 0, KEYS, 0), BLOCK_KEYS):
                dmemory = (
                    _load(dmemory_ptr, VALUES, key, after, first, VALUES, BLOCK_KEYS, COLUMNS).to(
                        tl.float32
                    )
                    * whole
                )
                q = _load(q_ptr, x_l, start, length, key, KEYS, STEPS, BLOCK_KEYS)
                dmemory = tl.dot(tl.trans(q), asked, dmemory, input_precision=PRECISION)
                k = _load(k_ptr, x_l, start, length, key, KEYS, STEPS, BLOCK_KEYS)
                dmemory = tl.dot(tl.trans(k), recalled, dmemory, input_precision=PRECISION)
                _store(next_ptr, VALUES, key, KEYS, first, VALUES, dmemory, BLOCK_KEYS, COLUMNS)
            tl.debug_barrier()  # what one thread has written another one reads


@triton.jit
def _finish(
    qkv_ptr, beta_ptr, g_ptr, squares_ptr, roots_ptr, solved_ptr, reading_ptr, memories_ptr, dmemories_ptr, o_ptr, do_ptr,
    dqkv_ptr, dbeta_ptr, dg_ptr, x_p, x_b, x_l, batch, heads, length, chunks, scale, sequences,
    KEYS: tl.constexpr, VALUES: tl.constexpr, STEPS: tl.constexpr, GATED: tl.constexpr, SINGLE: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_KEYS: tl.constexpr, BLOCK_VALUES: tl.constexpr,
):  # fmt: skip
    """dq, dk, dbeta and dg of one chunk: first what needs value channels alone, then block after
    block of key channels.
    """
    program = tl.program_id(0).to(tl.int64)
    sequence, chunk = program // chunks, (program % chunks).to(tl.int32)
    p, b, h = _place(sequence, heads, batch)
    start = chunk * STEPS
    q_ptr = qkv_ptr + p * x_p + b * x_b + h * KEYS
    k_ptr = q_ptr + heads * KEYS
    v_ptr = qkv_ptr + p * x_p + b * x_b + 2 * heads * KEYS + h * VALUES
    row = (p * batch + b) * length * heads + h
    o_ptr += row * VALUES
    do_ptr += row * VALUES
    channels = heads * (2 * KEYS + VALUES)
    dq_ptr = dqkv_ptr + (p * batch + b) * length * channels + h * KEYS
    dk_ptr = dq_ptr + heads * KEYS
    solved_ptr += sequence * chunks * STEPS * VALUES
    reading_ptr += sequence * chunks * STEPS * VALUES
    # Before the first chunk and after the last nothing is stored: those are zeros, and not read.
    memories_ptr += (sequence * (chunks - 1) + chunk - 1) * KEYS * VALUES
    dmemories_ptr += (sequence * (chunks - 1) + chunk) * KEYS * VALUES
    kind = qkv_ptr.dtype.element_ty
    beta = _scalars(beta_ptr + row, heads, chunk, length, 0, STEPS)
    dscores = tl.zeros((STEPS, STEPS), tl.float32)
    doverlap = tl.zeros((STEPS, STEPS), tl.float32)
    dbeta = tl.zeros((STEPS,), tl.float32)
    along_q = tl.zeros((STEPS,), tl.float32)  # sum_d q dq
    along_v = tl.zeros((STEPS,), tl.float32)
    for first in range(0, VALUES, BLOCK_VALUES):
        do = _load(do_ptr, heads * VALUES, start, length, first, VALUES, STEPS, BLOCK_VALUES)
        dr = _load(reading_ptr, VALUES, start, chunks * STEPS, first, VALUES, STEPS, BLOCK_VALUES)
        y = _load(solved_ptr, VALUES, start, chunks * STEPS, first, VALUES, STEPS, BLOCK_VALUES).to(
            tl.float32
        )
        u = (y * beta[:, None]).to(kind)
        dscores = tl.dot(do.to(kind), tl.trans(u), dscores, input_precision=PRECISION)
        doverlap = tl.dot(dr, tl.trans(u), doverlap, input_precision=PRECISION)
        o = _load(o_ptr, heads * VALUES, start, length, first, VALUES, STEPS, BLOCK_VALUES).to(
            tl.float32
        )
        v = _load(v_ptr, x_l, start, length, first, VALUES, STEPS, BLOCK_VALUES).to(tl.float32)
        dbeta += tl.sum(dr.to(tl.float32) * y, axis=1)
        along_q += tl.sum(do.to(tl.float32) * o, axis=1)
        along_v += tl.sum(dr.to(tl.float32) * v, axis=1)
    along_k = beta * (2 * dbeta - along_v)
    position = start + tl.arange(0, STEPS)
    tl.store(
        dbeta_ptr + row + position * heads,
        dbeta.to(dbeta_ptr.dtype.element_ty),
        mask=position < length,
    )
    i, j = tl.arange(0, STEPS)[:, None], tl.arange(0, STEPS)[None, :]
    doverlap = tl.where(i > j, doverlap * -beta[:, None], 0.0)
    if GATED:
        scores = tl.load(_square(squares_ptr, 0, sequences, sequence, chunks, chunk, STEPS)).to(
            tl.float32
        )
        overlap = tl.load(_square(squares_ptr, 2, sequences, sequence, chunks, chunk, STEPS)).to(
            tl.float32
        )
        # Of position t all pairs j < t <= i.
        pairs = tl.cumsum(dscores * scores + doverlap * overlap, axis=0, reverse=True)
        dg = tl.sum(tl.where(i > j, pairs, 0.0), axis=1)
    q_root = tl.load(_root(roots_ptr, 0, sequences, sequence, chunks, chunk, STEPS))
    k_root = tl.load(_root(roots_ptr, 1, sequences, sequence, chunks, chunk, STEPS))
    # The roots of what these squares are multiplied with, too: q and k are not normalised
    # themselves.
    decay = _decay(g_ptr + row, heads, chunk, length, STEPS, GATED)
    dscores = dscores * decay
    doverlap = doverlap * decay
    by_q = (dscores * (k_root * scale)[None, :]).to(kind)
    by_k = (dscores * (q_root * scale)[:, None]).to(kind)
    by_overlap = ((doverlap + tl.trans(doverlap)) * k_root[None, :]).to(kind)
    if not SINGLE:
        since, until, whole = _borders(g_ptr + row, heads, chunk, length, STEPS, GATED)
        d_since = tl.zeros((STEPS,), tl.float32)
        d_until = tl.zeros((STEPS,), tl.float32)
        d_whole = tl.zeros((BLOCK_VALUES,), tl.float32)
        before = tl.where(chunk > 0, KEYS, 0)
        after = tl.where(chunk + 1 < chunks, KEYS, 0)
    for first in range(0, KEYS, BLOCK_KEYS):
        q = _load(q_ptr, x_l, start, length, first, KEYS, STEPS, BLOCK_KEYS)
        k = _load(k_ptr, x_l, start, length, first, KEYS, STEPS, BLOCK_KEYS)
        dq = tl.dot(by_q, k, input_precision=PRECISION)
        dk = tl.dot(tl.trans(by_k), q, input_precision=PRECISION)
        dk = tl.dot(by_overlap, k, dk, input_precision=PRECISION)
        q, k = q.to(tl.float32) * q_root[:, None], k.to(tl.float32) * k_root[:, None]
        if not SINGLE:
            asking = tl.zeros((STEPS, BLOCK_KEYS), tl.float32)
            recalling = tl.zeros((STEPS, BLOCK_KEYS), tl.float32)
            writing = tl.zeros((STEPS, BLOCK_KEYS), tl.float32)
            for column in range(0, VALUES, BLOCK_VALUES):
                memory = _load(
                    memories_ptr, VALUES, first, before, column, VALUES, BLOCK_KEYS, BLOCK_VALUES
                )
                do = _load(
                    do_ptr, heads * VALUES, start, length, column, VALUES, STEPS, BLOCK_VALUES
                )
                asking = tl.dot(do.to(kind), tl.trans(memory), asking, input_precision=PRECISION)
                dr = _load(
                    reading_ptr, VALUES, start, chunks * STEPS, column, VALUES, STEPS, BLOCK_VALUES
                )
                recalling = tl.dot(dr, tl.trans(memory), recalling, input_precision=PRECISION)
                dmemory = _load(
                    dmemories_ptr, VALUES, first, after, column, VALUES, BLOCK_KEYS, BLOCK_VALUES
                )
                y = _load(
                    solved_ptr, VALUES, start, chunks * STEPS, column, VALUES, STEPS, BLOCK_VALUES
                )
                writing = tl.dot(y, tl.trans(dmemory), writing, input_precision=PRECISION)
                if GATED:
                    d_whole += tl.sum(memory.to(tl.float32) * dmemory.to(tl.float32), axis=0)
            asking *= (since * scale)[:, None]
            recalling *= -(beta * since)[:, None]
            writing *= (beta * until)[:, None]
            dq += asking
            dk += recalling + writing
            if GATED:
                d_since += tl.sum(q * asking + k * recalling, axis=1)
                d_until += tl.sum(k * writing, axis=1)
        dq = (dq - q * along_q[:, None]) * q_root[:, None]
        dk = (dk - k * along_k[:, None]) * k_root[:, None]
        _store(dq_ptr, channels, start, length, first, KEYS, dq, STEPS, BLOCK_KEYS)
        _store(dk_ptr, channels, start, length, first, KEYS, dk, STEPS, BLOCK_KEYS)
    if GATED:
        if not SINGLE:
            dg += tl.cumsum(d_since, axis=0, reverse=True) + whole * tl.sum(d_whole, axis=0)
            dg += tl.sum(tl.where(i > j, d_until[None, :], 0.0), axis=1)
        tl.store(
            dg_ptr + row + position * heads, dg.to(dg_ptr.dtype.element_ty), mask=position < length
        )
