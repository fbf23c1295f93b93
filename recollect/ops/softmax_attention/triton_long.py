"""Causal softmax attention with dropout over sequences of any length, tile by tile: neither scores
nor masks leave the chip (the online softmax of Milakov and Gimelshein 2018, as in FlashAttention).

    w_ij = exp(s_ij - z_i), z_i = log sum_j exp(s_ij)          y_i = sum_j w_ij m_ij v_j
    c_i = dy_i . y_i (it is sum_j w_ij dw_ij)                  ds_ij = w_ij (dw_ij - c_i) / sqrt(D)

and everything else as in triton_kernel.py, whose form for short sequences is faster where it fits.
Kept for the backward are q, k, v, y and z. PyTorch has such kernels of its own, but their dropout
masks are not a function of a member's seed.

Of a product without its bias, the kernels add that of q and of v where they read them. They never
read that of k: it adds the same number to all scores of a query, which the softmax does not notice
(so its gradient, the sum of dk, is rounding alone). Each program sums its tile of a gradient over
the rows, and sum_blocks adds up these shares in an order that depends on a member alone.

Shapes: P population, B batch, H heads, L keys, K queries, D channels of a head. A program has a
tile of queries and walks through keys, or the other way round for the gradients of keys and values.
"""

# A kernel's parameters have Triton's types, which Python's checker cannot know.
# mypy: disable-error-code="no-untyped-def, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.dispatch import product_precision
from recollect.ops.dropout import Mask
from recollect.ops.softmax_attention.tiles import most_positions
from recollect.ops.softmax_attention.triton_kernel import (
    beside,
    drop,
    heads_together,
    keep_mask,
    kept_tensors,
    like_product,
    mask_arguments,
    parts_of,
    places_of,
    shift_arguments,
    shift_of,
    tile,
)
from recollect.ops.triton_rows import sum_blocks
from recollect.ops.triton_tiles import padded


def causal_attention(
    q_PBHKD: Tensor,
    k_PBHLD: Tensor,
    v_PBHLD: Tensor,
    where_BK: Tensor | None = None,
    mask: Mask | None = None,
) -> Tensor:
    """Return the same as the function in triton_kernel.py."""
    return _Attention.apply(q_PBHKD, k_PBHLD, v_PBHLD, where_BK, mask)


def joint_attention(
    product_PBLC: Tensor, bias_PC: Tensor, heads: int, mask: Mask | None = None
) -> Tensor:
    """Return the same as the function in triton_kernel.py."""
    return _Joint.apply(None, *parts_of(product_PBLC, bias_PC, 3, heads), None, mask)


def joint_attention_at(
    q_PBHKD: Tensor,
    product_PBLC: Tensor,
    bias_PC: Tensor,
    heads: int,
    where_BK: Tensor,
    mask: Mask | None = None,
) -> Tensor:
    """Return the same as the function in triton_kernel.py."""
    return _Joint.apply(q_PBHKD, *parts_of(product_PBLC, bias_PC, 2, heads), where_BK, mask)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, where: Tensor | None, mask: Mask | None
    ) -> Tensor:
        where = None if where is None else where.contiguous()
        y, z = _attend((q, k, v), None, where, mask)
        keep_mask(ctx, mask, q, k, v, where, y, z)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (q, k, v, where, y, z), mask = kept_tensors(ctx)
        dq, dk, dv = (heads_together(x) for x in (q, k, v))
        _differentiate((q, k, v), None, (grads[0], y, z), (dq, dk, dv), where, mask)
        return dq, dk, dv, None, None


class _Joint(torch.autograd.Function):
    """The same for parts of one product, stacked along a first axis; q is one of them or apart."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor | None,
        stack: Tensor,
        biases: Tensor,
        where: Tensor | None,
        mask: Mask | None,
    ) -> Tensor:
        where = None if where is None else where.contiguous()
        y, z = _attend(beside(q, stack), biases, where, mask)
        keep_mask(ctx, mask, q, stack, biases, where, y, z)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (q, stack, biases, where, y, z), mask = kept_tensors(ctx)
        dq, dstack = None if q is None else heads_together(q), like_product(stack)
        inputs, gradients = beside(q, stack), beside(dq, dstack)
        dbiases = _differentiate(inputs, biases, (grads[0], y, z), gradients, where, mask)
        return dq, dstack, dbiases, None, None


def _attend(
    inputs: tuple[Tensor, ...], biases: Tensor | None, where: Tensor | None, mask: Mask | None
) -> tuple[Tensor, Tensor]:
    """Return y and z."""
    q = inputs[0]
    y = heads_together(q)
    z = torch.empty(q.shape[:4], dtype=torch.float32, device=q.device)
    _launch(_forward, inputs, biases, (y,), (z,), where, mask)
    return y, z


def _differentiate(
    inputs: tuple[Tensor, ...],
    biases: Tensor | None,
    results: tuple[Tensor, ...],
    gradients: tuple[Tensor, ...],
    where: Tensor | None,
    mask: Mask | None,
) -> Tensor | None:
    """Write the gradients of q, k and v, and return those of the biases, (parts, P, H, D).

    `results` are dy, y and z.
    """
    (g, y, z), (dq, dk, dv) = results, gradients
    sums = z, torch.empty_like(z)
    of_queries = _launch(_backward_queries, inputs, biases, (g, y, dq), sums, where, mask)
    of_keys = _launch(_backward_keys, inputs, biases, (g, dk, dv), sums, where, mask)
    found = [one for one in (of_queries, of_keys) if one is not None]
    return torch.cat(found, dim=1).movedim(1, 0) if found else None


def _launch(
    kernel: Any,
    inputs: tuple[Tensor, ...],
    biases: Tensor | None,
    others: tuple[Tensor, ...],
    sums: tuple[Tensor, ...],
    where: Tensor | None,
    mask: Mask | None,
) -> Tensor | None:
    """Launch a kernel; `sums` are (P, B, H, K). Return the gradients of the biases of what it
    differentiates, (P, parts, H, D), or None if there are none.
    """
    q, k, _ = inputs
    population, batch, heads, queries, width = q.shape
    length, by_keys = k.shape[3], kernel is _backward_keys
    arguments: list[Any] = []
    for tensor in (*inputs, *others):
        arguments += [tensor, *tensor.stride()]
    block_width = padded(width)
    q_shift, _, v_shift = shift_arguments(biases)
    # The largest tiles whose numbers stay in a program's registers. Wide queries need more of them
    # where each tile gets its bias anew.
    most_keys = most_queries = most_positions(block_width)
    if by_keys:
        most_queries = 32 if block_width <= 128 or q_shift[0] is None else 16
    sizes = {
        "QUERIES": min(most_queries, padded(queries)),
        "KEYS": min(most_keys, padded(length)),
    }
    tiles = triton.cdiv(length if by_keys else queries, sizes["KEYS" if by_keys else "QUERIES"])
    parts = 0 if biases is None or kernel is _forward else 2 if by_keys else len(biases) - 2
    shares = q.new_empty(population, batch * tiles, parts * heads * width, dtype=torch.float32)
    kernel[(tiles * population * batch * heads,)](
        *arguments,
        *sums,
        *q_shift,
        *v_shift,
        shares if parts else None,
        q if where is None else where,
        *mask_arguments(mask),
        tiles,
        batch,
        heads,
        queries,
        length,
        width,
        width**-0.5,
        **sizes,
        WIDTH=block_width,
        EVERYWHERE=where is None,
        PRECISION=product_precision("tf32x3"),
        num_warps=4 if block_width <= 64 else 8,
        num_stages=1,
    )
    return sum_blocks(shares).view(population, parts, heads, width) if parts else None


@triton.jit
def _where_am_i(tiles, batch, heads):
    """Return the tile of this program, and its member, row and head."""
    program = tl.program_id(0).to(tl.int64)
    sequence = program // tiles
    return program % tiles, sequence // heads // batch, sequence // heads % batch, sequence % heads


@triton.jit
def _read(
    pointer, stride_p, stride_b, stride_h, stride_l, stride_d, p, b, h, rows, columns, inside
):
    at = tile(pointer, stride_p, stride_b, stride_h, stride_l, stride_d, p, b, h, rows, columns)
    return tl.load(at, mask=inside, other=0.0)


@triton.jit
def _write(
    x, pointer, stride_p, stride_b, stride_h, stride_l, stride_d, p, b, h, rows, columns, inside
):
    at = tile(pointer, stride_p, stride_b, stride_h, stride_l, stride_d, p, b, h, rows, columns)
    tl.store(at, x.to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def _shifted(x, shift, shift_ptr):
    """Return x with its bias, which is rounded to the precision of x, as autocast rounds it: in
    float32 the sum would need more registers. Rows beyond the last get a bias too; what is computed
    of them has a weight of 0 or is not written.
    """
    if shift_ptr is not None:
        x += shift.to(x.dtype)[None, :]
    return x


@triton.jit
def _write_share(x, shares_ptr, number, tiles, part, parts, p, b, h, batch, heads, width, columns):
    """Write the sum over the rows of a tile of one gradient."""
    block = (p * batch + b) * tiles + number
    at = ((block * parts + part) * heads + h) * width + columns
    tl.store(shares_ptr + at, tl.sum(x, 0), mask=columns < width)


@triton.jit
def _forward(
    q_ptr, q_p, q_b, q_h, q_l, q_d, k_ptr, k_p, k_b, k_h, k_l, k_d, v_ptr, v_p, v_b, v_h, v_l, v_d,
    y_ptr, y_p, y_b, y_h, y_l, y_d, z_ptr, bq_ptr, bq_p, bq_h, bv_ptr, bv_p, bv_h, shares_ptr,
    where_ptr, stream_ptr, least, kept_share, tiles, batch, heads, queries, length, width, scale,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, EVERYWHERE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    number, p, b, h = _where_am_i(tiles, batch, heads)
    row, channel = number * QUERIES + tl.arange(0, QUERIES), tl.arange(0, WIDTH)
    asked = (row < queries)[:, None] & (channel < width)[None, :]
    places = places_of(where_ptr, b, row, queries, EVERYWHERE)
    q = _read(q_ptr, q_p, q_b, q_h, q_l, q_d, p, b, h, row, channel, asked)
    q = _shifted(q, shift_of(bq_ptr, bq_p, bq_h, p, h, channel, width), bq_ptr)
    shift = shift_of(bv_ptr, bv_p, bv_h, p, h, channel, width)
    highest = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    y = tl.zeros([QUERIES, WIDTH], tl.float32)
    for start in range(0, tl.max(places) + 1, KEYS):
        key = start + tl.arange(0, KEYS)
        there = (key < length)[:, None] & (channel < width)[None, :]
        k = _read(k_ptr, k_p, k_b, k_h, k_l, k_d, p, b, h, key, channel, there)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        scores = tl.where(places[:, None] >= key[None, :], scores, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.exp(scores - higher[:, None])
        shrink = tl.exp(highest - higher)
        total = total * shrink + tl.sum(weights, 1)
        weights = drop(weights, stream_ptr, p, b, h, heads, length, places, key, least, kept_share)
        v = _read(v_ptr, v_p, v_b, v_h, v_l, v_d, p, b, h, key, channel, there)
        v = _shifted(v, shift, bv_ptr)
        y = y * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
        highest = higher
    _write(y / total[:, None], y_ptr, y_p, y_b, y_h, y_l, y_d, p, b, h, row, channel, asked)
    sequence = (p * batch + b) * heads + h
    tl.store(z_ptr + sequence * queries + row, highest + tl.log(total), mask=row < queries)


@triton.jit
def _dscores(
    q, k, v, g, z, c, places, key, stream_ptr, p, b, h, heads, length, least, kept_share, scale,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Return w m and ds of a tile."""
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    seen = places[:, None] >= key[None, :]
    weights = tl.exp(tl.where(seen, scores - z[:, None], float("-inf")))
    dropped = drop(weights, stream_ptr, p, b, h, heads, length, places, key, least, kept_share)
    dweights = tl.dot(g, tl.trans(v), input_precision=PRECISION)
    dweights = drop(dweights, stream_ptr, p, b, h, heads, length, places, key, least, kept_share)
    return dropped, weights * (dweights - c[:, None]) * scale


@triton.jit
def _backward_queries(
    q_ptr, q_p, q_b, q_h, q_l, q_d, k_ptr, k_p, k_b, k_h, k_l, k_d, v_ptr, v_p, v_b, v_h, v_l, v_d,
    g_ptr, g_p, g_b, g_h, g_l, g_d, y_ptr, y_p, y_b, y_h, y_l, y_d,
    dq_ptr, dq_p, dq_b, dq_h, dq_l, dq_d, z_ptr, c_ptr, bq_ptr, bq_p, bq_h, bv_ptr, bv_p,
    bv_h, shares_ptr, where_ptr, stream_ptr, least, kept_share, tiles, batch, heads, queries,
    length, width, scale, QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
    EVERYWHERE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute dq, and c for the other kernel."""
    number, p, b, h = _where_am_i(tiles, batch, heads)
    row, channel = number * QUERIES + tl.arange(0, QUERIES), tl.arange(0, WIDTH)
    asked = (row < queries)[:, None] & (channel < width)[None, :]
    places = places_of(where_ptr, b, row, queries, EVERYWHERE)
    q = _read(q_ptr, q_p, q_b, q_h, q_l, q_d, p, b, h, row, channel, asked)
    q = _shifted(q, shift_of(bq_ptr, bq_p, bq_h, p, h, channel, width), bq_ptr)
    g = _read(g_ptr, g_p, g_b, g_h, g_l, g_d, p, b, h, row, channel, asked)
    y = _read(y_ptr, y_p, y_b, y_h, y_l, y_d, p, b, h, row, channel, asked)
    at = ((p * batch + b) * heads + h) * queries + row
    # A query beyond the last has no weights, so nothing of it is in a share.
    z = tl.load(z_ptr + at, mask=row < queries, other=float("inf"))
    c = tl.sum(g.to(tl.float32) * y.to(tl.float32), 1)
    tl.store(c_ptr + at, c, mask=row < queries)
    g = g.to(q.dtype)
    shift = shift_of(bv_ptr, bv_p, bv_h, p, h, channel, width)
    dq = tl.zeros([QUERIES, WIDTH], tl.float32)
    for start in range(0, tl.max(places) + 1, KEYS):
        key = start + tl.arange(0, KEYS)
        there = (key < length)[:, None] & (channel < width)[None, :]
        k = _read(k_ptr, k_p, k_b, k_h, k_l, k_d, p, b, h, key, channel, there)
        v = _read(v_ptr, v_p, v_b, v_h, v_l, v_d, p, b, h, key, channel, there)
        v = _shifted(v, shift, bv_ptr)
        _, dscores = _dscores(
            q, k, v, g, z, c, places, key, stream_ptr, p, b, h, heads, length, least, kept_share,
            scale, PRECISION,
        )  # fmt: skip
        dq += tl.dot(dscores.to(k.dtype), k, input_precision=PRECISION)
    _write(dq, dq_ptr, dq_p, dq_b, dq_h, dq_l, dq_d, p, b, h, row, channel, asked)
    if shares_ptr is not None:
        _write_share(dq, shares_ptr, number, tiles, 0, 1, p, b, h, batch, heads, width, channel)


@triton.jit
def _backward_keys(
    q_ptr, q_p, q_b, q_h, q_l, q_d, k_ptr, k_p, k_b, k_h, k_l, k_d, v_ptr, v_p, v_b, v_h, v_l, v_d,
    g_ptr, g_p, g_b, g_h, g_l, g_d, dk_ptr, dk_p, dk_b, dk_h, dk_l, dk_d,
    dv_ptr, dv_p, dv_b, dv_h, dv_l, dv_d, z_ptr, c_ptr, bq_ptr, bq_p, bq_h, bv_ptr, bv_p,
    bv_h, shares_ptr, where_ptr, stream_ptr, least, kept_share, tiles, batch, heads, queries,
    length, width, scale, QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
    EVERYWHERE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute dk and dv."""
    number, p, b, h = _where_am_i(tiles, batch, heads)
    key, channel = number * KEYS + tl.arange(0, KEYS), tl.arange(0, WIDTH)
    there = (key < length)[:, None] & (channel < width)[None, :]
    k = _read(k_ptr, k_p, k_b, k_h, k_l, k_d, p, b, h, key, channel, there)
    v = _read(v_ptr, v_p, v_b, v_h, v_l, v_d, p, b, h, key, channel, there)
    v = _shifted(v, shift_of(bv_ptr, bv_p, bv_h, p, h, channel, width), bv_ptr)
    shift = shift_of(bq_ptr, bq_p, bq_h, p, h, channel, width)
    dk = tl.zeros([KEYS, WIDTH], tl.float32)
    dv = tl.zeros([KEYS, WIDTH], tl.float32)
    # With a query at each position, the queries before the tile see none of its keys.
    first = number * KEYS // QUERIES * QUERIES if EVERYWHERE else 0
    for start in range(first, queries, QUERIES):
        row = start + tl.arange(0, QUERIES)
        asked = (row < queries)[:, None] & (channel < width)[None, :]
        places = places_of(where_ptr, b, row, queries, EVERYWHERE)
        # A query beyond the last sees nothing.
        places = tl.where(row < queries, places, -1)
        at = ((p * batch + b) * heads + h) * queries + row
        z = tl.load(z_ptr + at, mask=row < queries, other=0.0)
        c = tl.load(c_ptr + at, mask=row < queries, other=0.0)
        q = _read(q_ptr, q_p, q_b, q_h, q_l, q_d, p, b, h, row, channel, asked)
        q = _shifted(q, shift, bq_ptr)
        g = _read(g_ptr, g_p, g_b, g_h, g_l, g_d, p, b, h, row, channel, asked).to(q.dtype)
        dropped, dscores = _dscores(
            q, k, v, g, z, c, places, key, stream_ptr, p, b, h, heads, length, least, kept_share,
            scale, PRECISION,
        )  # fmt: skip
        dv += tl.dot(tl.trans(dropped.to(g.dtype)), g, input_precision=PRECISION)
        dk += tl.dot(tl.trans(dscores.to(q.dtype)), q, input_precision=PRECISION)
    _write(dk, dk_ptr, dk_p, dk_b, dk_h, dk_l, dk_d, p, b, h, key, channel, there)
    _write(dv, dv_ptr, dv_p, dv_b, dv_h, dv_l, dv_d, p, b, h, key, channel, there)
    if shares_ptr is not None:
        _write_share(dk, shares_ptr, number, tiles, 0, 2, p, b, h, batch, heads, width, channel)
        _write_share(dv, shares_ptr, number, tiles, 1, 2, p, b, h, batch, heads, width, channel)
