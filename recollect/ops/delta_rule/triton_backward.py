"""The backward kernels of the delta rule; equations and names are in triton_kernel.py."""

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
def walk_back_kernel(
    qkv_ptr, beta_ptr, g_ptr, squares_ptr, roots_ptr, reading_ptr, dmemories_ptr, do_ptr, dqkv_ptr,
    x_p, x_b, x_l, batch, heads, length, chunks, tiles, scale,
    KEYS: tl.constexpr, VALUES: tl.constexpr, STEPS: tl.constexpr,
    GATED: tl.constexpr, SINGLE: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_KEYS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute dR, dv and the gradients of the memories after each chunk except the last."""
    parts: tl.constexpr = (VALUES + COLUMNS - 1) // COLUMNS
    program = tl.program_id(0).to(tl.int64)
    sequence, first = program // parts, (program % parts).to(tl.int32) * COLUMNS
    p, b, h = place(sequence, heads, batch)
    q_ptr, k_ptr, _ = head_channels(qkv_ptr + p * x_p + b * x_b, h, heads, KEYS, VALUES)
    row = (p * batch + b) * length * heads + h
    do_ptr += row * VALUES
    channels = heads * (2 * KEYS + VALUES)
    dqkv_ptr += (p * batch + b) * length * channels
    _, _, dv_ptr = head_channels(dqkv_ptr, h, heads, KEYS, VALUES)
    reading_ptr += sequence * chunks * STEPS * VALUES
    kind = qkv_ptr.dtype.element_ty
    for back in range(chunks):
        chunk = chunks - 1 - back
        start, tile = chunk * STEPS, sequence * chunks + chunk
        beta = load_scalars(beta_ptr + row, heads, chunk, length, 0, STEPS)
        do = load_tile(do_ptr, heads * VALUES, start, length, first, VALUES, STEPS, COLUMNS).to(
            kind
        )
        scores = tl.load(square_at(squares_ptr, 0, tiles, tile, STEPS))
        du = tl.dot(tl.trans(scores), do, input_precision=PRECISION)
        if not SINGLE:
            since, until, whole = chunk_borders(g_ptr + row, heads, chunk, length, STEPS, GATED)
            q_root = tl.load(root_at(roots_ptr, 0, tiles, tile, STEPS))
            k_root = tl.load(root_at(roots_ptr, 1, tiles, tile, STEPS))
            dmemory_ptr = dmemories_ptr + (sequence * (chunks - 1) + chunk) * KEYS * VALUES
            next_ptr = dmemory_ptr - KEYS * VALUES
            after = tl.where(back > 0, KEYS, 0)
            written = tl.zeros((STEPS, COLUMNS), tl.float32)
            for key in range(0, after, BLOCK_KEYS):
                dmemory = load_tile(
                    dmemory_ptr, VALUES, key, KEYS, first, VALUES, BLOCK_KEYS, COLUMNS
                )
                k = load_tile(k_ptr, x_l, start, length, key, KEYS, STEPS, BLOCK_KEYS)
                written = tl.dot(k, dmemory, written, input_precision=PRECISION)
            du += written * (until * k_root)[:, None]
        inverse = tl.load(square_at(squares_ptr, 1, tiles, tile, STEPS))
        dr = du - tl.dot(
            tl.trans(inverse), (du * beta[:, None]).to(kind), input_precision=PRECISION
        )
        store_tile(reading_ptr, VALUES, start, chunks * STEPS, first, VALUES, dr, STEPS, COLUMNS)
        dv = dr * beta[:, None]
        store_tile(dv_ptr, channels, start, length, first, VALUES, dv, STEPS, COLUMNS)
        if not SINGLE:
            asked = (do.to(tl.float32) * (since * q_root * scale)[:, None]).to(kind)
            recalled = (dv * -(since * k_root)[:, None]).to(kind)
            for key in range(0, tl.where(chunk > 0, KEYS, 0), BLOCK_KEYS):
                dmemory = (
                    load_tile(
                        dmemory_ptr, VALUES, key, after, first, VALUES, BLOCK_KEYS, COLUMNS
                    ).to(tl.float32)
                    * whole
                )
                q = load_tile(q_ptr, x_l, start, length, key, KEYS, STEPS, BLOCK_KEYS)
                dmemory = tl.dot(tl.trans(q), asked, dmemory, input_precision=PRECISION)
                k = load_tile(k_ptr, x_l, start, length, key, KEYS, STEPS, BLOCK_KEYS)
                dmemory = tl.dot(tl.trans(k), recalled, dmemory, input_precision=PRECISION)
                store_tile(next_ptr, VALUES, key, KEYS, first, VALUES, dmemory, BLOCK_KEYS, COLUMNS)
            tl.debug_barrier()  # threads read what other threads wrote


@triton.jit
def finish_kernel(
    qkv_ptr, beta_ptr, g_ptr, squares_ptr, roots_ptr, solved_ptr, reading_ptr,
    memories_ptr, dmemories_ptr, o_ptr, do_ptr, dqkv_ptr, dbeta_ptr, dg_ptr,
    x_p, x_b, x_l, batch, heads, length, chunks, tiles, scale,
    KEYS: tl.constexpr, VALUES: tl.constexpr, STEPS: tl.constexpr,
    GATED: tl.constexpr, SINGLE: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_KEYS: tl.constexpr, BLOCK_VALUES: tl.constexpr,
):  # fmt: skip
    """Compute dq, dk, dbeta and dg of one chunk: first the parts that need only value channels,
    then the key channels block by block.
    """
    tile = tl.program_id(0).to(tl.int64)
    sequence, chunk = tile // chunks, (tile % chunks).to(tl.int32)
    p, b, h = place(sequence, heads, batch)
    start = chunk * STEPS
    q_ptr, k_ptr, v_ptr = head_channels(qkv_ptr + p * x_p + b * x_b, h, heads, KEYS, VALUES)
    row = (p * batch + b) * length * heads + h
    o_ptr += row * VALUES
    do_ptr += row * VALUES
    channels = heads * (2 * KEYS + VALUES)
    dqkv_ptr += (p * batch + b) * length * channels
    dq_ptr, dk_ptr, _ = head_channels(dqkv_ptr, h, heads, KEYS, VALUES)
    solved_ptr += sequence * chunks * STEPS * VALUES
    reading_ptr += sequence * chunks * STEPS * VALUES
    # The memory before the first chunk and the gradient after the last are zero; they are neither
    # stored nor read.
    memories_ptr += (sequence * (chunks - 1) + chunk - 1) * KEYS * VALUES
    dmemories_ptr += (sequence * (chunks - 1) + chunk) * KEYS * VALUES
    kind = qkv_ptr.dtype.element_ty
    beta = load_scalars(beta_ptr + row, heads, chunk, length, 0, STEPS)
    dscores = tl.zeros((STEPS, STEPS), tl.float32)
    doverlap = tl.zeros((STEPS, STEPS), tl.float32)
    dbeta = tl.zeros((STEPS,), tl.float32)
    along_q = tl.zeros((STEPS,), tl.float32)  # sum_d q dq
    along_v = tl.zeros((STEPS,), tl.float32)
    for first in range(0, VALUES, BLOCK_VALUES):
        do = load_tile(do_ptr, heads * VALUES, start, length, first, VALUES, STEPS, BLOCK_VALUES)
        dr = load_tile(
            reading_ptr, VALUES, start, chunks * STEPS, first, VALUES, STEPS, BLOCK_VALUES
        )
        y = load_tile(
            solved_ptr, VALUES, start, chunks * STEPS, first, VALUES, STEPS, BLOCK_VALUES
        ).to(tl.float32)
        u = (y * beta[:, None]).to(kind)
        dscores = tl.dot(do.to(kind), tl.trans(u), dscores, input_precision=PRECISION)
        doverlap = tl.dot(dr, tl.trans(u), doverlap, input_precision=PRECISION)
        o = load_tile(o_ptr, heads * VALUES, start, length, first, VALUES, STEPS, BLOCK_VALUES).to(
            tl.float32
        )
        v = load_tile(v_ptr, x_l, start, length, first, VALUES, STEPS, BLOCK_VALUES).to(tl.float32)
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
        scores = tl.load(square_at(squares_ptr, 0, tiles, tile, STEPS)).to(tl.float32)
        overlap = tl.load(square_at(squares_ptr, 2, tiles, tile, STEPS)).to(tl.float32)
        # For position t, all pairs j < t <= i.
        pairs = tl.cumsum(dscores * scores + doverlap * overlap, axis=0, reverse=True)
        dg = tl.sum(tl.where(i > j, pairs, 0.0), axis=1)
    q_root = tl.load(root_at(roots_ptr, 0, tiles, tile, STEPS))
    k_root = tl.load(root_at(roots_ptr, 1, tiles, tile, STEPS))
    # These squares also include the roots of their factors, since q and k themselves are not
    # normalised.
    decay = decay_matrix(g_ptr + row, heads, chunk, length, STEPS, GATED)
    dscores = dscores * decay
    doverlap = doverlap * decay
    by_q = (dscores * (k_root * scale)[None, :]).to(kind)
    by_k = (dscores * (q_root * scale)[:, None]).to(kind)
    by_overlap = ((doverlap + tl.trans(doverlap)) * k_root[None, :]).to(kind)
    if not SINGLE:
        since, until, whole = chunk_borders(g_ptr + row, heads, chunk, length, STEPS, GATED)
        d_since = tl.zeros((STEPS,), tl.float32)
        d_until = tl.zeros((STEPS,), tl.float32)
        d_whole = tl.zeros((BLOCK_VALUES,), tl.float32)
        before = tl.where(chunk > 0, KEYS, 0)
        after = tl.where(chunk + 1 < chunks, KEYS, 0)
    for first in range(0, KEYS, BLOCK_KEYS):
        q = load_tile(q_ptr, x_l, start, length, first, KEYS, STEPS, BLOCK_KEYS)
        k = load_tile(k_ptr, x_l, start, length, first, KEYS, STEPS, BLOCK_KEYS)
        dq = tl.dot(by_q, k, input_precision=PRECISION)
        dk = tl.dot(tl.trans(by_k), q, input_precision=PRECISION)
        dk = tl.dot(by_overlap, k, dk, input_precision=PRECISION)
        q, k = q.to(tl.float32) * q_root[:, None], k.to(tl.float32) * k_root[:, None]
        if not SINGLE:
            asking = tl.zeros((STEPS, BLOCK_KEYS), tl.float32)
            recalling = tl.zeros((STEPS, BLOCK_KEYS), tl.float32)
            writing = tl.zeros((STEPS, BLOCK_KEYS), tl.float32)
            for column in range(0, VALUES, BLOCK_VALUES):
                memory = load_tile(
                    memories_ptr, VALUES, first, before, column, VALUES, BLOCK_KEYS, BLOCK_VALUES
                )
                do = load_tile(
                    do_ptr, heads * VALUES, start, length, column, VALUES, STEPS, BLOCK_VALUES
                )
                asking = tl.dot(do.to(kind), tl.trans(memory), asking, input_precision=PRECISION)
                dr = load_tile(
                    reading_ptr, VALUES, start, chunks * STEPS, column, VALUES, STEPS, BLOCK_VALUES
                )
                recalling = tl.dot(dr, tl.trans(memory), recalling, input_precision=PRECISION)
                dmemory = load_tile(
                    dmemories_ptr, VALUES, first, after, column, VALUES, BLOCK_KEYS, BLOCK_VALUES
                )
                y = load_tile(
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
        store_tile(dq_ptr, channels, start, length, first, KEYS, dq, STEPS, BLOCK_KEYS)
        store_tile(dk_ptr, channels, start, length, first, KEYS, dk, STEPS, BLOCK_KEYS)
    if GATED:
        if not SINGLE:
            dg += tl.cumsum(d_since, axis=0, reverse=True) + whole * tl.sum(d_whole, axis=0)
            dg += tl.sum(tl.where(i > j, d_until[None, :], 0.0), axis=1)
        tl.store(
            dg_ptr + row + position * heads, dg.to(dg_ptr.dtype.element_ty), mask=position < length
        )
