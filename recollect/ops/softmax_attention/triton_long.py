"""Causal softmax attention with dropout over sequences of any length, tile by tile: neither scores
nor masks leave the chip (the online softmax of Milakov and Gimelshein 2018, as in FlashAttention).

    w_ij = exp(s_ij - z_i), z_i = log sum_j exp(s_ij)          y_i = sum_j w_ij m_ij v_j
    c_i = dy_i . y_i (it is sum_j w_ij dw_ij)                  ds_ij = w_ij (dw_ij - c_i) / sqrt(D)

and everything else as in triton_kernel.py, whose form for short sequences is faster where it fits.
Kept for the backward are q, k, v, y and z. PyTorch has such kernels of its own, but their dropout
masks are not a function of a member's seed.

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
from recollect.ops.softmax_attention.triton_kernel import (
    drop,
    heads_together,
    keep_mask,
    kept_tensors,
    mask_arguments,
    places_of,
    tile,
)

WIDEST = 256


def fits(width: int) -> bool:
    return width <= WIDEST


def causal_attention(
    q_PBHKD: Tensor,
    k_PBHLD: Tensor,
    v_PBHLD: Tensor,
    where_BK: Tensor | None = None,
    mask: Mask | None = None,
) -> Tensor:
    """Return the same as the function in triton_kernel.py."""
    return _Attention.apply(q_PBHKD, k_PBHLD, v_PBHLD, where_BK, mask)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, where: Tensor | None, mask: Mask | None
    ) -> Tensor:
        y = heads_together(q)
        z = torch.empty(q.shape[:4], dtype=torch.float32, device=q.device)
        where = None if where is None else where.contiguous()
        keep_mask(ctx, mask, q, k, v, where, y, z)
        _launch(_forward, q.shape[3], (q, k, v), (y,), (z,), where, mask)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (q, k, v, where, y, z), mask = kept_tensors(ctx)
        g, c = grads[0], torch.empty_like(z)
        dq, dk, dv = (heads_together(x) for x in (q, k, v))
        _launch(_backward_queries, q.shape[3], (q, k, v), (g, y, dq), (z, c), where, mask)
        _launch(_backward_keys, k.shape[3], (q, k, v), (g, dk, dv), (z, c), where, mask)
        return dq, dk, dv, None, None


def _launch(
    kernel: Any,
    walked_by: int,
    inputs: tuple[Tensor, ...],
    others: tuple[Tensor, ...],
    sums: tuple[Tensor, ...],
    where: Tensor | None,
    mask: Mask | None,
) -> None:
    """Launch a kernel. `walked_by` counts the queries, or keys, of which each program has a tile;
    `sums` are (P, B, H, K).
    """
    q, k, _ = inputs
    population, batch, heads, queries, width = q.shape
    arguments: list[Any] = []
    for tensor in (*inputs, *others):
        arguments += [tensor, *tensor.stride()]
    block_width = max(16, triton.next_power_of_2(width))
    # The largest tiles whose numbers stay in a program's registers.
    most_keys = 64 if block_width <= 128 else 32
    most_queries = 32 if kernel is _backward_keys else most_keys
    sizes = {
        "QUERIES": min(most_queries, max(16, triton.next_power_of_2(queries))),
        "KEYS": min(most_keys, max(16, triton.next_power_of_2(k.shape[3]))),
    }
    tiles = triton.cdiv(walked_by, sizes["KEYS" if kernel is _backward_keys else "QUERIES"])
    kernel[(tiles * population * batch * heads,)](
        *arguments,
        *sums,
        q if where is None else where,
        *mask_arguments(mask),
        tiles,
        batch,
        heads,
        queries,
        k.shape[3],
        width,
        width**-0.5,
        **sizes,
        WIDTH=block_width,
        EVERYWHERE=where is None,
        PRECISION=product_precision("tf32x3"),
        num_warps=4 if block_width <= 64 else 8,
        num_stages=1,
    )


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
def _forward(
    q_ptr, q_p, q_b, q_h, q_l, q_d, k_ptr, k_p, k_b, k_h, k_l, k_d, v_ptr, v_p, v_b, v_h, v_l, v_d,
    y_ptr, y_p, y_b, y_h, y_l, y_d, z_ptr, where_ptr, stream_ptr, least, kept_share,
    tiles, batch, heads, queries, length, width, scale,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, EVERYWHERE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    number, p, b, h = _where_am_i(tiles, batch, heads)
    row, channel = number * QUERIES + tl.arange(0, QUERIES), tl.arange(0, WIDTH)
    asked = (row < queries)[:, None] & (channel < width)[None, :]
    places = places_of(where_ptr, b, row, queries, EVERYWHERE)
    q = _read(q_ptr, q_p, q_b, q_h, q_l, q_d, p, b, h, row, channel, asked)
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
    dq_ptr, dq_p, dq_b, dq_h, dq_l, dq_d, z_ptr, c_ptr, where_ptr, stream_ptr, least, kept_share,
    tiles, batch, heads, queries, length, width, scale,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, EVERYWHERE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute dq, and c for the other kernel."""
    number, p, b, h = _where_am_i(tiles, batch, heads)
    row, channel = number * QUERIES + tl.arange(0, QUERIES), tl.arange(0, WIDTH)
    asked = (row < queries)[:, None] & (channel < width)[None, :]
    places = places_of(where_ptr, b, row, queries, EVERYWHERE)
    q = _read(q_ptr, q_p, q_b, q_h, q_l, q_d, p, b, h, row, channel, asked)
    g = _read(g_ptr, g_p, g_b, g_h, g_l, g_d, p, b, h, row, channel, asked)
    y = _read(y_ptr, y_p, y_b, y_h, y_l, y_d, p, b, h, row, channel, asked)
    at = ((p * batch + b) * heads + h) * queries + row
    z = tl.load(z_ptr + at, mask=row < queries, other=0.0)
    c = tl.sum(g.to(tl.float32) * y.to(tl.float32), 1)
    tl.store(c_ptr + at, c, mask=row < queries)
    g = g.to(q.dtype)
    dq = tl.zeros([QUERIES, WIDTH], tl.float32)
    for start in range(0, tl.max(places) + 1, KEYS):
        key = start + tl.arange(0, KEYS)
        there = (key < length)[:, None] & (channel < width)[None, :]
        k = _read(k_ptr, k_p, k_b, k_h, k_l, k_d, p, b, h, key, channel, there)
        v = _read(v_ptr, v_p, v_b, v_h, v_l, v_d, p, b, h, key, channel, there)
        _, dscores = _dscores(
            q, k, v, g, z, c, places, key, stream_ptr, p, b, h, heads, length, least, kept_share,
            scale, PRECISION,
        )  # fmt: skip
        dq += tl.dot(dscores.to(k.dtype), k, input_precision=PRECISION)
    _write(dq, dq_ptr, dq_p, dq_b, dq_h, dq_l, dq_d, p, b, h, row, channel, asked)


@triton.jit
def _backward_keys(
    q_ptr, q_p, q_b, q_h, q_l, q_d, k_ptr, k_p, k_b, k_h, k_l, k_d, v_ptr, v_p, v_b, v_h, v_l, v_d,
    g_ptr, g_p, g_b, g_h, g_l, g_d, dk_ptr, dk_p, dk_b, dk_h, dk_l, dk_d,
    dv_ptr, dv_p, dv_b, dv_h, dv_l, dv_d, z_ptr, c_ptr, where_ptr, stream_ptr, least, kept_share,
    tiles, batch, heads, queries, length, width, scale,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, EVERYWHERE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute dk and dv."""
    number, p, b, h = _where_am_i(tiles, batch, heads)
    key, channel = number * KEYS + tl.arange(0, KEYS), tl.arange(0, WIDTH)
    there = (key < length)[:, None] & (channel < width)[None, :]
    k = _read(k_ptr, k_p, k_b, k_h, k_l, k_d, p, b, h, key, channel, there)
    v = _read(v_ptr, v_p, v_b, v_h, v_l, v_d, p, b, h, key, channel, there)
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
        g = _read(g_ptr, g_p, g_b, g_h, g_l, g_d, p, b, h, row, channel, asked).to(q.dtype)
        dropped, dscores = _dscores(
            q, k, v, g, z, c, places, key, stream_ptr, p, b, h, heads, length, least, kept_share,
            scale, PRECISION,
        )  # fmt: skip
        dv += tl.dot(tl.trans(dropped.to(g.dtype)), g, input_precision=PRECISION)
        dk += tl.dot(tl.trans(dscores.to(q.dtype)), q, input_precision=PRECISION)
    _write(dk, dk_ptr, dk_p, dk_b, dk_h, dk_l, dk_d, p, b, h, key, channel, there)
    _write(dv, dv_ptr, dv_p, dv_b, dv_h, dv_l, dv_d, p, b, h, key, channel, there)
