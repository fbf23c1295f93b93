"""Causal softmax attention over short sequences in one kernel: scores never leave the chip.

    s = q k^T / sqrt(D), s_ij = -inf for j > i          w = softmax(s)          y = (w m) v
    dv = (w m)^T dy          dw = (dy v^T) m          ds = w (dw - sum_j w dw) / sqrt(D)
    dq = ds k            dk = ds^T q

m is dropout's mask, 0 or 1 / (1 - share), computed again wherever it is needed; without dropout it
is 1.

Shapes: P population, B batch, H heads, L length, D channels of a head, K queries (one at each
position, or fewer, each with its own position). One program per (member, row, head) holds the whole
sequence, so only q, k and v are kept for the backward: it computes w again, and does not need y.
Inputs may be views with any strides (three parts of one projection); y has adjacent heads, ready
for the next product. PyTorch's own kernels are made for long sequences; at L = D = 64 they move
several times as many bytes.
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
from recollect.ops.dropout.triton_kernel import is_kept, least_kept
from recollect.ops.triton_tiles import padded


def causal_attention(
    q_PBHKD: Tensor,
    k_PBHLD: Tensor,
    v_PBHLD: Tensor,
    where_BK: Tensor | None = None,
    mask: Mask | None = None,
) -> Tensor:
    """Return y_PBHKD, a view of (P, B, K, H, D); differentiable in q, k and v.

    `where` holds the positions of the queries; by default there is one everywhere. The mask covers
    all L x L weights.
    """
    return _Attention.apply(q_PBHKD, k_PBHLD, v_PBHLD, where_BK, mask)


def joint_attention(
    product_PBLC: Tensor, bias_PC: Tensor, heads: int, mask: Mask | None = None
) -> Tensor:
    """Return y_PBHLD of queries, keys and values that are adjacent in one product, each with all
    its heads.

    The bias of the product is added here, where its elements are read, and its gradient is one
    tensor, as the product is.
    """
    return _Joint.apply(None, *parts_of(product_PBLC, bias_PC, 3, heads), None, mask)


def joint_attention_at(
    q_PBHKD: Tensor,
    product_PBLC: Tensor,
    bias_PC: Tensor,
    heads: int,
    where_BK: Tensor,
    mask: Mask | None = None,
) -> Tensor:
    """Return y_PBHKD for queries at the positions `where`; keys and values are one product and come
    with their biases.
    """
    return _Joint.apply(q_PBHKD, *parts_of(product_PBLC, bias_PC, 2, heads), where_BK, mask)


def parts_of(
    product_PBLC: Tensor, bias_PC: Tensor, parts: int, heads: int
) -> tuple[Tensor, Tensor]:
    """Return views of a product, (parts, P, B, H, L, D), and of its bias, (parts, P, H, D)."""
    stack, biases = (
        x.unflatten(-1, (parts, heads, -1)).movedim(-3, 0) for x in (product_PBLC, bias_PC)
    )
    return stack.transpose(-3, -2), biases


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, where: Tensor | None, mask: Mask | None
    ) -> Tensor:
        y = heads_together(q)
        where = None if where is None else where.contiguous()
        keep_mask(ctx, mask, q, k, v, where)
        _launch(_forward, (q, k, v), None, (y,), where, mask)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (q, k, v, where), mask = kept_tensors(ctx)
        dq, dk, dv = (heads_together(x) for x in (q, k, v))
        _launch(_backward, (q, k, v), None, (grads[0], dq, dk, dv), where, mask)
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
        first = stack[0] if q is None else q
        y = heads_together(first)
        where = None if where is None else where.contiguous()
        keep_mask(ctx, mask, q, stack, biases, where)
        _launch(_forward, beside(q, stack), biases, (y,), where, mask)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (q, stack, biases, where), mask = kept_tensors(ctx)
        dstack = like_product(stack)
        dq = None if q is None else heads_together(q)
        others = (grads[0], *beside(dq, dstack))
        _launch(_backward, beside(q, stack), biases, others, where, mask)
        return dq, dstack, dstack.sum((2, 4), dtype=torch.float32), None, None


def keep_mask(ctx: Any, mask: Mask | None, *tensors: Tensor | None) -> None:
    """Keep tensors and a mask for the backward."""
    ctx.share = 0.0 if mask is None else mask.share
    ctx.save_for_backward(*tensors, None if mask is None else mask.stream_P)


def kept_tensors(ctx: Any) -> tuple[tuple[Any, ...], Mask | None]:
    *tensors, stream_P = ctx.saved_tensors
    return tuple(tensors), None if stream_P is None else Mask(stream_P, ctx.share)


def beside(q: Tensor | None, stack: Tensor) -> tuple[Tensor, ...]:
    """Return q, k and v, of which q may be apart from the stack."""
    return tuple(stack) if q is None else (q, *stack)


def like_product(stack: Tensor) -> Tensor:
    """Return an empty stack whose parts are adjacent, as a product's are, so that as a product's
    gradient it needs no copy.
    """
    parts, _, batch, heads, length, width = stack.shape
    row = parts * heads * width
    strides = heads * width, batch * length * row, length * row, width, row, 1
    return torch.empty_strided(stack.shape, strides, dtype=stack.dtype, device=stack.device)


def heads_together(like_PBHLD: Tensor) -> Tensor:
    population, batch, heads, length, width = like_PBHLD.shape
    return like_PBHLD.new_empty(population, batch, length, heads, width).transpose(2, 3)


def _launch(
    kernel: Any,
    inputs: tuple[Tensor, ...],
    biases: Tensor | None,
    others: tuple[Tensor, ...],
    where: Tensor | None,
    mask: Mask | None,
) -> None:
    q, k, _ = inputs
    population, batch, heads, queries, width = q.shape
    length = k.shape[3]
    arguments: list[Any] = []
    for tensor in (*inputs, *others):
        arguments += [tensor, *tensor.stride()]
    for shift in shift_arguments(biases):
        arguments += shift
    block_queries, block_length, block_width = map(padded, (queries, length, width))
    small = block_length * block_width <= 64 * 64 and (kernel is _forward or where is not None)
    kernel[(population * batch * heads,)](
        *arguments,
        q if where is None else where,
        *mask_arguments(mask),
        batch,
        heads,
        queries,
        length,
        width,
        width**-0.5,
        QUERIES=block_queries,
        LENGTH=block_length,
        WIDTH=block_width,
        EVERYWHERE=where is None,
        PRECISION=product_precision("ieee"),
        num_warps=4 if small else 8,
    )


def shift_arguments(biases: Tensor | None) -> list[list[Any]]:
    """Return a kernel's pointer and strides of the bias of q, of k and of v. A bias is (P, H, D)
    with D dense; separate queries have theirs added already.
    """
    shifts: list[Tensor | None] = [None] * 3
    if biases is not None:
        shifts[-len(biases) :] = list(biases)
    return [[x, 0, 0] if x is None else [x, x.stride(0), x.stride(1)] for x in shifts]


def mask_arguments(mask: Mask | None) -> tuple[Tensor | None, int, float]:
    """Return a kernel's stream, the smallest number that is kept, and the fraction that is kept."""
    return (None, 0, 1.0) if mask is None else (mask[0], least_kept(mask.share), 1 - mask.share)


@triton.jit
def tile(pointer, stride_p, stride_b, stride_h, stride_l, stride_d, p, b, h, rows, columns):
    """Return the pointers of some positions and channels of one sequence and head."""
    start = pointer + p * stride_p + b * stride_b + h * stride_h
    return start + rows[:, None] * stride_l + columns[None, :] * stride_d


@triton.jit
def shift_of(shift_ptr, shift_p, shift_h, p, h, columns, width):
    """Return the bias of one head; zeros if it is added already."""
    shift = tl.zeros([columns.shape[0]], tl.float32)
    if shift_ptr is not None:
        shift = tl.load(
            shift_ptr + p * shift_p + h * shift_h + columns, mask=columns < width, other=0.0
        ).to(tl.float32)
    return shift


@triton.jit
def _read(
    pointer, stride_p, stride_b, stride_h, stride_l, stride_d, shift_ptr, shift_p, shift_h, p, b,
    h, rows, columns, inside, width,
):  # fmt: skip
    """Load one sequence and head, and add its bias if that is still to be done."""
    x = tl.load(
        tile(pointer, stride_p, stride_b, stride_h, stride_l, stride_d, p, b, h, rows, columns),
        mask=inside,
        other=0.0,
    )
    if shift_ptr is not None:
        shift = shift_of(shift_ptr, shift_p, shift_h, p, h, columns, width)
        x = tl.where(inside, x.to(tl.float32) + shift[None, :], 0.0).to(x.dtype)
    return x


@triton.jit
def places_of(where_ptr, b, row, queries, EVERYWHERE: tl.constexpr):
    """Return the position of each query of a row; queries beyond the last are at the first
    position, and their results are not read.
    """
    if EVERYWHERE:
        places = tl.where(row < queries, row, 0)
    else:
        places = tl.load(where_ptr + b * queries + row, mask=row < queries, other=0)
    return places.to(tl.int32)


@triton.jit
def _weights(q, k, places, scale, LENGTH: tl.constexpr, PRECISION: tl.constexpr):
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    scores = tl.where(places[:, None] >= tl.arange(0, LENGTH)[None, :], scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    return weights / tl.sum(weights, 1)[:, None]


@triton.jit
def drop(x, stream_ptr, p, b, h, heads, length, places, key, least, kept_share):
    """Return x m for a tile of queries at `places` and keys at `key`; x itself without a stream."""
    if stream_ptr is not None:
        query = (b * heads + h) * length + places.to(tl.int64)
        counter = query[:, None] * length + key[None, :]
        x = tl.where(is_kept(tl.load(stream_ptr + p), counter, least), x / kept_share, x * 0.0)
    return x


@triton.jit
def _forward(
    q_ptr, q_p, q_b, q_h, q_l, q_d, k_ptr, k_p, k_b, k_h, k_l, k_d, v_ptr, v_p, v_b, v_h, v_l, v_d,
    y_ptr, y_p, y_b, y_h, y_l, y_d,
    bq_ptr, bq_p, bq_h, bk_ptr, bk_p, bk_h, bv_ptr, bv_p, bv_h, where_ptr, stream_ptr, least,
    kept_share, batch, heads, queries, length, width, scale,
    QUERIES: tl.constexpr, LENGTH: tl.constexpr, WIDTH: tl.constexpr, EVERYWHERE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    h, b, p = program % heads, program // heads % batch, program // heads // batch
    row, key, channel = tl.arange(0, QUERIES), tl.arange(0, LENGTH), tl.arange(0, WIDTH)
    asked = (row < queries)[:, None] & (channel < width)[None, :]
    inside = (key < length)[:, None] & (channel < width)[None, :]
    places = places_of(where_ptr, b, row, queries, EVERYWHERE)
    q = _read(
        q_ptr, q_p, q_b, q_h, q_l, q_d, bq_ptr, bq_p, bq_h, p, b, h, row, channel, asked, width
    )
    k = _read(
        k_ptr, k_p, k_b, k_h, k_l, k_d, bk_ptr, bk_p, bk_h, p, b, h, key, channel, inside, width
    )
    v = _read(
        v_ptr, v_p, v_b, v_h, v_l, v_d, bv_ptr, bv_p, bv_h, p, b, h, key, channel, inside, width
    )
    weights = _weights(q, k, places, scale, LENGTH, PRECISION)
    dropped = drop(weights, stream_ptr, p, b, h, heads, length, places, key, least, kept_share)
    y = tl.dot(dropped.to(v.dtype), v, input_precision=PRECISION)
    tl.store(
        tile(y_ptr, y_p, y_b, y_h, y_l, y_d, p, b, h, row, channel),
        y.to(y_ptr.dtype.element_ty),
        mask=asked,
    )


@triton.jit
def _backward(
    q_ptr, q_p, q_b, q_h, q_l, q_d, k_ptr, k_p, k_b, k_h, k_l, k_d, v_ptr, v_p, v_b, v_h, v_l, v_d,
    g_ptr, g_p, g_b, g_h, g_l, g_d, dq_ptr, dq_p, dq_b, dq_h, dq_l, dq_d, dk_ptr, dk_p, dk_b, dk_h,
    dk_l, dk_d,
    dv_ptr, dv_p, dv_b, dv_h, dv_l, dv_d,
    bq_ptr, bq_p, bq_h, bk_ptr, bk_p, bk_h, bv_ptr, bv_p, bv_h, where_ptr, stream_ptr, least,
    kept_share, batch, heads, queries, length, width, scale,
    QUERIES: tl.constexpr, LENGTH: tl.constexpr, WIDTH: tl.constexpr, EVERYWHERE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    h, b, p = program % heads, program // heads % batch, program // heads // batch
    row, key, channel = tl.arange(0, QUERIES), tl.arange(0, LENGTH), tl.arange(0, WIDTH)
    asked = (row < queries)[:, None] & (channel < width)[None, :]
    inside = (key < length)[:, None] & (channel < width)[None, :]
    places = places_of(where_ptr, b, row, queries, EVERYWHERE)
    q = _read(
        q_ptr, q_p, q_b, q_h, q_l, q_d, bq_ptr, bq_p, bq_h, p, b, h, row, channel, asked, width
    )
    k = _read(
        k_ptr, k_p, k_b, k_h, k_l, k_d, bk_ptr, bk_p, bk_h, p, b, h, key, channel, inside, width
    )
    weights = _weights(q, k, places, scale, LENGTH, PRECISION)
    g = tl.load(
        tile(g_ptr, g_p, g_b, g_h, g_l, g_d, p, b, h, row, channel), mask=asked, other=0.0
    ).to(q.dtype)
    dropped = drop(weights, stream_ptr, p, b, h, heads, length, places, key, least, kept_share)
    dv = tl.dot(tl.trans(dropped.to(q.dtype)), g, input_precision=PRECISION)
    tl.store(
        tile(dv_ptr, dv_p, dv_b, dv_h, dv_l, dv_d, p, b, h, key, channel),
        dv.to(dv_ptr.dtype.element_ty),
        mask=inside,
    )
    v = _read(
        v_ptr, v_p, v_b, v_h, v_l, v_d, bv_ptr, bv_p, bv_h, p, b, h, key, channel, inside, width
    )
    dweights = tl.dot(g, tl.trans(v), input_precision=PRECISION)
    dweights = drop(dweights, stream_ptr, p, b, h, heads, length, places, key, least, kept_share)
    dscores = weights * (dweights - tl.sum(weights * dweights, 1)[:, None]) * scale
    dscores = dscores.to(q.dtype)
    dq = tl.dot(dscores, k, input_precision=PRECISION)
    tl.store(
        tile(dq_ptr, dq_p, dq_b, dq_h, dq_l, dq_d, p, b, h, row, channel),
        dq.to(dq_ptr.dtype.element_ty),
        mask=asked,
    )
    dk = tl.dot(tl.trans(dscores), q, input_precision=PRECISION)
    tl.store(
        tile(dk_ptr, dk_p, dk_b, dk_h, dk_l, dk_d, p, b, h, key, channel),
        dk.to(dk_ptr.dtype.element_ty),
        mask=inside,
    )
