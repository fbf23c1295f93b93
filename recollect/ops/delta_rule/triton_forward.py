"""The forward kernels of the delta rule; equations and names are in triton_kernel.py."""

# A kernel's parameters have Triton's types, which Python's checker cannot know.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, var-annotated, misc, index"

import triton
import triton.language as tl

from recollect.ops.delta_rule.triton_tiles import (
    chunk_borders,
    decay_matrix,
    head_channels,
    load_scalars,
    load_tile,
    place,
    root_at,
    square_at,
    store_tile,
)


@triton.jit
def squares_kernel(
    qkv_ptr, beta_ptr, g_ptr, squares_ptr, roots_ptr,
    x_p, x_b, x_l, batch, heads, length, chunks, tiles, scale, eps,
    KEYS: tl.constexpr, VALUES: tl.constexpr, STEPS: tl.constexpr,
    GATED: tl.constexpr, SINGLE: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK: tl.constexpr, BLOCK_KEYS: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0).to(tl.int64)
    sequence, chunk = tile // chunks, (tile % chunks).to(tl.int32)
    p, b, h = place(sequence, heads, batch)
    q_ptr, k_ptr, _ = head_channels(qkv_ptr + p * x_p + b * x_b, h, heads, KEYS, VALUES)
    scores = tl.zeros((STEPS, STEPS), tl.float32)
    overlap = tl.zeros((STEPS, STEPS), tl.float32)
    q_square = tl.zeros((STEPS,), tl.float32)
    k_square = tl.zeros((STEPS,), tl.float32)
    for first in range(0, KEYS, BLOCK_KEYS):
        q = load_tile(q_ptr, x_l, chunk * STEPS, length, first, KEYS, STEPS, BLOCK_KEYS)
        k = load_tile(k_ptr, x_l, chunk * STEPS, length, first, KEYS, STEPS, BLOCK_KEYS)
        scores = tl.dot(q, tl.trans(k), scores, input_precision=PRECISION)
        overlap = tl.dot(k, tl.trans(k), overlap, input_precision=PRECISION)
        q_square += tl.sum(q.to(tl.float32) * q.to(tl.float32), axis=1)
        k_square += tl.sum(k.to(tl.float32) * k.to(tl.float32), axis=1)
    q_root, k_root = 1 / tl.sqrt(q_square + eps), 1 / tl.sqrt(k_square + eps)
    tl.store(root_at(roots_ptr, 0, tiles, tile, STEPS), q_root)
    tl.store(root_at(roots_ptr, 1, tiles, tile, STEPS), k_root)
    row = (p * batch + b) * length * heads + h  # of beta and g
    decay = decay_matrix(g_ptr + row, heads, chunk, length, STEPS, GATED) * k_root[None, :]
    kind = squares_ptr.dtype.element_ty
    scores = scores * (q_root * scale)[:, None] * decay
    tl.store(square_at(squares_ptr, 0, tiles, tile, STEPS), scores.to(kind))
    i, j = tl.arange(0, STEPS)[:, None], tl.arange(0, STEPS)[None, :]
    overlap = tl.where(i > j, overlap * k_root[:, None] * decay, 0.0)
    if GATED:
        tl.store(square_at(squares_ptr, 2, tiles, tile, STEPS), overlap.to(kind))
    beta = load_scalars(beta_ptr + row, heads, chunk, length, 0, STEPS)
    inverse = _inside_blocks(overlap, beta, STEPS, BLOCK)
    if STEPS > BLOCK:
        inverse = _joined(inverse, overlap, beta, BLOCK, STEPS, PRECISION)
    if STEPS > 2 * BLOCK:
        inverse = _joined(inverse, overlap, beta, 2 * BLOCK, STEPS, PRECISION)
    tl.store(square_at(squares_ptr, 1, tiles, tile, STEPS), inverse.to(kind))


@triton.jit
def _inside_blocks(overlap, beta, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Compute H = N - N beta H inside the diagonal blocks, row by row, for all blocks at once."""
    BLOCKS: tl.constexpr = STEPS // BLOCK
    number = tl.arange(0, BLOCKS)
    mine = (number[:, None] == number[None, :])[:, None, :, None]
    row, column = tl.arange(0, BLOCK)[None, :, None], tl.arange(0, BLOCK)[None, None, :]
    blocks = tl.sum(
        tl.where(mine, tl.reshape(overlap, (BLOCKS, BLOCK, BLOCKS, BLOCK)), 0.0), axis=2
    )
    turned = tl.reshape(tl.trans(overlap) * beta[:, None], (BLOCKS, BLOCK, BLOCKS, BLOCK))
    # Transposed, so that a row of N beta lies where the rows of H are that it is multiplied with.
    turned = tl.sum(tl.where(mine, turned, 0.0), axis=2)
    for i in range(1, BLOCK):
        factors = tl.sum(tl.where(column == i, turned, 0.0), axis=2)
        known = tl.sum(factors[:, :, None] * blocks, axis=1)
        blocks = tl.where(row == i, blocks - known[:, None, :], blocks)
    return tl.reshape(tl.where(mine, blocks[:, :, None, :], 0.0), (STEPS, STEPS))


@triton.jit
def _joined(
    inverse, overlap, beta, SIZE: tl.constexpr, STEPS: tl.constexpr, PRECISION: tl.constexpr
):
    """Compute H for blocks of twice the size: (I - H beta) N (I - beta H) between their halves."""
    i, j = tl.arange(0, STEPS)[:, None], tl.arange(0, STEPS)[None, :]
    between = tl.where((i // (2 * SIZE) == j // (2 * SIZE)) & (i // SIZE > j // SIZE), overlap, 0.0)
    one = tl.where(i == j, 1.0, 0.0)
    left = tl.dot(one - inverse * beta[None, :], between, input_precision=PRECISION)
    return inverse + tl.dot(left, one - inverse * beta[:, None], input_precision=PRECISION)


@triton.jit
def walk_kernel(
    qkv_ptr, beta_ptr, g_ptr, squares_ptr, roots_ptr, solved_ptr, memories_ptr, o_ptr,
    x_p, x_b, x_l, batch, heads, length, chunks, tiles, scale,
    KEYS: tl.constexpr, VALUES: tl.constexpr, STEPS: tl.constexpr,
    GATED: tl.constexpr, SINGLE: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_KEYS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute Y, o and the memories before each chunk except the first."""
    parts: tl.constexpr = (VALUES + COLUMNS - 1) // COLUMNS
    program = tl.program_id(0).to(tl.int64)
    sequence, first = program // parts, (program % parts).to(tl.int32) * COLUMNS
    p, b, h = place(sequence, heads, batch)
    q_ptr, k_ptr, v_ptr = head_channels(qkv_ptr + p * x_p + b * x_b, h, heads, KEYS, VALUES)
    row = (p * batch + b) * length * heads + h  # of beta, g and, times VALUES, o
    o_ptr += row * VALUES
    solved_ptr += sequence * chunks * STEPS * VALUES
    kind = qkv_ptr.dtype.element_ty
    for chunk in range(chunks):
        start, tile = chunk * STEPS, sequence * chunks + chunk
        beta = load_scalars(beta_ptr + row, heads, chunk, length, 0, STEPS)
        x = load_tile(v_ptr, x_l, start, length, first, VALUES, STEPS, COLUMNS).to(tl.float32)
        if not SINGLE:
            since, until, whole = chunk_borders(g_ptr + row, heads, chunk, length, STEPS, GATED)
            q_root = tl.load(root_at(roots_ptr, 0, tiles, tile, STEPS))
            k_root = tl.load(root_at(roots_ptr, 1, tiles, tile, STEPS))
            next_ptr = memories_ptr + (sequence * (chunks - 1) + chunk) * KEYS * VALUES
            memory_ptr = next_ptr - KEYS * VALUES
            before = tl.where(chunk > 0, KEYS, 0)
            asked = tl.zeros((STEPS, COLUMNS), tl.float32)
            recalled = tl.zeros((STEPS, COLUMNS), tl.float32)
            for key in range(0, before, BLOCK_KEYS):
                memory = load_tile(
                    memory_ptr, VALUES, key, KEYS, first, VALUES, BLOCK_KEYS, COLUMNS
                )
                k = load_tile(k_ptr, x_l, start, length, key, KEYS, STEPS, BLOCK_KEYS)
                recalled = tl.dot(k, memory, recalled, input_precision=PRECISION)
                q = load_tile(q_ptr, x_l, start, length, key, KEYS, STEPS, BLOCK_KEYS)
                asked = tl.dot(q, memory, asked, input_precision=PRECISION)
            x -= recalled * (since * k_root)[:, None]
        inverse = tl.load(square_at(squares_ptr, 1, tiles, tile, STEPS))
        y = x - tl.dot(inverse, (x * beta[:, None]).to(kind), input_precision=PRECISION)
        store_tile(solved_ptr, VALUES, start, chunks * STEPS, first, VALUES, y, STEPS, COLUMNS)
        u = y * beta[:, None]
        scores = tl.load(square_at(squares_ptr, 0, tiles, tile, STEPS))
        o = tl.dot(scores, u.to(kind), input_precision=PRECISION)
        if not SINGLE:
            o += asked * (since * q_root * scale)[:, None]
            written = (u * (until * k_root)[:, None]).to(kind)
            # The memory before the next chunk; after the last chunk it is not needed.
            for key in range(0, tl.where(chunk + 1 < chunks, KEYS, 0), BLOCK_KEYS):
                memory = (
                    load_tile(
                        memory_ptr, VALUES, key, before, first, VALUES, BLOCK_KEYS, COLUMNS
                    ).to(tl.float32)
                    * whole
                )
                k = load_tile(k_ptr, x_l, start, length, key, KEYS, STEPS, BLOCK_KEYS)
                memory = tl.dot(tl.trans(k), written, memory, input_precision=PRECISION)
                store_tile(next_ptr, VALUES, key, KEYS, first, VALUES, memory, BLOCK_KEYS, COLUMNS)
            tl.debug_barrier()  # threads read what other threads wrote
        store_tile(o_ptr, heads * VALUES, start, length, first, VALUES, o, STEPS, COLUMNS)
