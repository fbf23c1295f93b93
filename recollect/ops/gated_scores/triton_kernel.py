"""Kernels of `gated_scores`: blocks of scores exist only on chip, forward and backward.

With s_ij = q_i . k_j, e_ij = exp(row_i + column_j), w = s e + skip 1[i = j], and the gradients dy
of y and dtotal of total:

    dw_ij = dy_i . v_j + dtotal_i        ds = dw e
    dq_i = sum_j ds_ij k_j      dk_j = sum_i ds_ij q_i      dv_j = sum_i w_ij dy_i
    drow_i = sum_j ds_ij s_ij = q_i . dq_i      dcolumn_j = k_j . dk_j
    dskip = sum over rows and i of dw_ii

One kernel computes y, dq, dk and dv in the same way: a product of two tensors gives a square of w
or of ds, and its product with a third is added up. A program has a block of queries and walks over
the keys they see or, for dk and dv, a block of keys and walks over the queries that see them; its
square is then transposed. Only the inputs are kept for the backward.

    made    square    of        meets    summed over                            and
    y       w         q, k      v        keys                                   total
    dv      w         k, q      dy       queries
    dq      ds        dy, v     k        keys, and heads if they share q        drow
    dk      ds        v, dy     q        queries, and heads if they share k     dcolumn, dskip

drow, dcolumn and parts of dskip are made for each head.

Shapes as in plain.py; in the kernel R rows and C columns of a square, PRODUCT channels that it is a
sum over, MADE channels of the result.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.dispatch import product_precision
from recollect.ops.triton_tiles import padded

BLOCK = 64  # positions: a square of scores is 32 floats per thread of four warps
WIDEST = 256  # channels that a program adds up in addition: 128 floats per thread
# The limit for products as exact as float32: each is three products of operands that are split in
# two in shared memory.
WIDEST_EXACT = 128


def fits(keys: int, values: int, dtype: torch.dtype, shared: int) -> bool:
    widest = WIDEST_EXACT if _is_exact(dtype) else WIDEST
    return max(keys, values) <= widest and shared_bytes(keys, values, dtype) <= shared


def shared_bytes(keys: int, values: int, dtype: torch.dtype) -> int:
    """Return the most shared memory of a program: three blocks of positions; five, and their gates,
    if those of the next step are loaded ahead.
    """
    narrow, wide = sorted(padded(size) for size in (keys, values))
    channels, gates = 2 * wide + narrow, 0
    if _is_loaded_ahead(keys, values, dtype):
        channels, gates = 3 * wide + 2 * narrow, torch.float64.itemsize
    exact = 2 if _is_exact(dtype) else 1
    return BLOCK * (channels * dtype.itemsize * exact + gates)


def _is_exact(dtype: torch.dtype) -> bool:
    return dtype == torch.float32 and product_precision("tf32x3") != "tf32"


def gated_scores(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    row: Tensor,
    column: Tensor,
    skip: Tensor | None,
    where: Tensor | None,
) -> tuple[Tensor, Tensor]:
    return _GatedScores.apply(q, k, v, row, column, skip, where)


class _GatedScores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        row: Tensor,
        column: Tensor,
        skip: Tensor | None,
        where: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        population, batch, heads, _, values = v.shape
        queries = q.shape[3]
        q, k, v = (_dense(x) for x in (q, k, v))
        row, column = (
            x.double().expand(population, batch, heads, -1).contiguous() for x in (row, column)
        )
        skip = None if skip is None else skip.contiguous()
        where = None if where is None else where.contiguous()
        y = v.new_empty(population, batch, queries, heads, values).transpose(2, 3)
        total = torch.empty(population, batch, heads, queries, dtype=torch.float32, device=v.device)
        gates = (row, column, skip, where, None)
        _launch((q, k, v), y, None, gates, total, None, keys=False, gradients=False)
        ctx.save_for_backward(q, k, v, row, column, skip, where)
        return y, total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, row, column, skip, where = ctx.saved_tensors
        dy, dtotal = _dense(grads[0]), grads[1].contiguous()
        dq, dk, dv = (_heads_last(x) for x in (q, k, v))
        drow, dcolumn = torch.empty_like(row), torch.empty_like(column)
        # For each block of keys: its diagonal's part of the gradient of the direct path.
        blocks = triton.cdiv(v.shape[3], _block(v.shape[3]))
        diagonal = (
            None
            if skip is None
            else torch.empty(*v.shape[:3], blocks, dtype=torch.float32, device=v.device)
        )
        gates = (row, column, skip, where, dtotal)
        _launch((k, q, dy), dv, None, gates, None, None, keys=True, gradients=False)
        _launch((dy, v, k), dq, q, gates, drow, None, keys=False, gradients=True)
        _launch((v, dy, q), dk, k, gates, dcolumn, diagonal, keys=True, gradients=True)
        return dq, dk, dv, drow, dcolumn, None if diagonal is None else diagonal.sum((1, 3)), None


def _launch(
    read: tuple[Tensor, Tensor, Tensor], made: Tensor, own: Tensor | None,
    gates: tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None],
    sums: Tensor | None, diagonal: Tensor | None, *, keys: bool, gradients: bool,
) -> None:  # fmt: skip
    """Compute `made` from the three tensors `read`; `own` is the tensor whose gradient it is, if a
    gate's gradient needs it.
    """
    row, column, _, where, _ = gates
    population, batch, heads, queries = row.shape
    length = column.shape[3]
    outer, inner = (length, queries) if keys else (queries, length)
    groups = made.shape[2] if gradients else read[0].shape[2]
    summed = gradients and groups < heads
    block, across = _block(outer), _block(inner)
    product_width, made_width = read[0].shape[4], made.shape[4]
    # Bytes per position. Beyond 1024 (float32) four warps would not have the registers to load a
    # block.
    carried = (product_width + made_width) * made.element_size()
    overlapped = inner > across and _is_loaded_ahead(product_width, made_width, made.dtype)
    _walk[(population * batch * (groups if summed else heads) * triton.cdiv(outer, block),)](
        *_strided(*read, made, made if own is None else own), *gates, sums, diagonal,
        batch, heads, queries, length, product_width, made_width,
        KEYS=keys, GRADIENTS=gradients, SHARED=groups < heads, EVERYWHERE=where is None, R=block,
        C=across,
        PRODUCT=padded(product_width), MADE=padded(made_width),
        PRECISION=product_precision("tf32x3"),
        num_warps=4 if carried <= 1024 else 8, num_stages=2 if overlapped else 1,
    )  # fmt: skip


def _is_loaded_ahead(product_width: int, made_width: int, dtype: torch.dtype) -> bool:
    """Whether the next step of a walk may be loaded during this one.

    Up to 512 bytes per position two programs then still fit on a multiprocessor. With 7 or 8
    channels in tiles of 16, Triton 3.6 computes wrong sums
    (docs/decisions/triton-faults-on-hopper.md); wide tiles were correct.
    """
    is_light = (product_width + made_width) * dtype.itemsize <= 512
    return is_light and min(product_width, made_width) >= BLOCK


def _block(positions: int) -> int:
    return min(BLOCK, padded(positions))


def _dense(x: Tensor) -> Tensor:
    """Return x with adjacent channels, which is all that a kernel requires."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _heads_last(like: Tensor) -> Tensor:
    """Return a tensor like q, k or v with the channels of all heads of a position adjacent, as in
    the gradient of a product.
    """
    population, batch, heads, length, width = like.shape
    return like.new_empty(population, batch, length, heads, width).transpose(2, 3)


def _strided(*tensors: Tensor) -> list[Any]:
    arguments: list[Any] = []
    for tensor in tensors:
        arguments += [tensor, *tensor.stride()[:4]]
    return arguments


@triton.jit
def _tile(
    p_stride,
    b_stride,
    h_stride,
    l_stride,
    p,
    b,
    h,
    first,
    length,
    width,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Return positions from `first` on of one sequence and head, and which of them are valid."""
    position = first + tl.arange(0, ROWS)
    channel = tl.arange(0, COLUMNS)
    place = (
        p * p_stride + b * b_stride + h * h_stride + position[:, None] * l_stride + channel[None, :]
    )
    return place, (position < length)[:, None] & (channel < width)[None, :]


@triton.jit
def _load(
    pointer,
    p_stride,
    b_stride,
    h_stride,
    l_stride,
    p,
    b,
    h,
    first,
    length,
    width,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    place, valid = _tile(
        p_stride, b_stride, h_stride, l_stride, p, b, h, first, length, width, ROWS, COLUMNS
    )
    return tl.load(pointer + place, mask=valid, other=0.0)


@triton.jit
def _side(
    gate_ptr, where_ptr, sequence, b, first, length, PLACED: tl.constexpr, SIZE: tl.constexpr
):
    """Return a gate for each position, as the sum of two numbers in float32, and the position
    itself; it is -1 beyond the end.

    Sums of two such pairs are as exact as float32 can represent, and need no square of numbers in
    float64.
    """
    number = first + tl.arange(0, SIZE)
    gate = tl.load(gate_ptr + sequence * length + number, mask=number < length, other=0.0)
    high = gate.to(tl.float32)
    if PLACED:
        place = tl.load(where_ptr + b * length + number, mask=number < length, other=-1).to(
            tl.int32
        )
    else:
        place = tl.where(number < length, number, -1)
    return high, (gate - high.to(tl.float64)).to(tl.float32), place


@triton.jit
def _walk(
    a_ptr, a_p, a_b, a_h, a_l, b_ptr, b_p, b_b, b_h, b_l, c_ptr, c_p, c_b, c_h, c_l,
    made_ptr, made_p, made_b, made_h, made_l, own_ptr, own_p, own_b, own_h, own_l,
    row_ptr, column_ptr, skip_ptr, where_ptr, dtotal_ptr, sums_ptr, diagonal_ptr,
    batch, heads, queries, length, product_width, made_width,
    KEYS: tl.constexpr, GRADIENTS: tl.constexpr, SHARED: tl.constexpr, EVERYWHERE: tl.constexpr,
    R: tl.constexpr, C: tl.constexpr, PRODUCT: tl.constexpr, MADE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute made = sum over columns of (w or ds) c, where the square comes from a b^T; its rows
    are keys, or queries.
    """
    SUMMED: tl.constexpr = GRADIENTS and SHARED
    outer, inner = (length, queries) if KEYS else (queries, length)
    blocks = tl.cdiv(outer, R)
    program = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    first = block * R
    programs = 1 if SUMMED else heads
    own_head, b, p = program % programs, program // programs % batch, program // programs // batch
    made = tl.zeros([R, MADE], dtype=tl.float32)
    # With a query at each position, queries see no later key, and no earlier query sees a key.
    start = first // C * C if KEYS and EVERYWHERE else 0
    end = tl.minimum(first + R, inner) if EVERYWHERE and not KEYS else inner
    for number in range(heads if SUMMED else 1):
        h = number if SUMMED else own_head
        group = 0 if SHARED else h
        sequence = (p * batch + b) * heads + h
        # w comes from queries and keys, which heads may share, and multiplies values; for ds it is
        # the other way round.
        h_product, h_made = (h, group) if GRADIENTS else (group, h)
        gate_ptr, other_ptr = (column_ptr, row_ptr) if KEYS else (row_ptr, column_ptr)
        high_R, low_R, place_R = _side(
            gate_ptr, where_ptr, sequence, b, first, outer, not KEYS and not EVERYWHERE, R
        )
        a = _load(
            a_ptr, a_p, a_b, a_h, a_l, p, b, h_product, first, outer, product_width, R, PRODUCT
        )
        of_head = tl.zeros([R, MADE], dtype=tl.float32)
        total_R = tl.zeros([R], dtype=tl.float32)
        for second in range(start, end, C):
            b_tile = _load(
                b_ptr, b_p, b_b, b_h, b_l, p, b, h_product, second, inner, product_width, C, PRODUCT
            )
            c_tile = _load(
                c_ptr, c_p, c_b, c_h, c_l, p, b, h_made, second, inner, made_width, C, MADE
            )
            high_C, low_C, place_C = _side(
                other_ptr, where_ptr, sequence, b, second, inner, KEYS and not EVERYWHERE, C
            )
            log = (high_R[:, None] + high_C[None, :]) + (low_R[:, None] + low_C[None, :])
            if KEYS:
                seen = (place_R[:, None] <= place_C[None, :]) & (place_R >= 0)[:, None]
            else:
                seen = (place_C[None, :] <= place_R[:, None]) & (place_C >= 0)[None, :]
            e = tl.exp(tl.where(seen, log, float("-inf")))
            square = tl.dot(a, tl.trans(b_tile.to(a.dtype)), input_precision=PRECISION)
            same = place_R[:, None] == place_C[None, :]
            if GRADIENTS:
                if KEYS:
                    query = second + tl.arange(0, C)
                    square += tl.load(
                        dtotal_ptr + sequence * queries + query, mask=query < queries, other=0.0
                    )[None, :]
                else:
                    query = first + tl.arange(0, R)
                    square += tl.load(
                        dtotal_ptr + sequence * queries + query, mask=query < queries, other=0.0
                    )[:, None]
                if diagonal_ptr is not None:
                    total_R += tl.sum(tl.where(same & seen, square, 0.0), 1)
                square *= e
            else:
                square *= e
                if skip_ptr is not None:
                    square += tl.where(same & seen, tl.load(skip_ptr + p * heads + h), 0.0)
                if sums_ptr is not None:
                    total_R += tl.sum(square, 1)
            of_head += tl.dot(square.to(c_tile.dtype), c_tile, input_precision=PRECISION)
        if diagonal_ptr is not None:
            tl.store(diagonal_ptr + sequence * blocks + block, tl.sum(total_R, 0))
        if GRADIENTS:
            own = _load(
                own_ptr, own_p, own_b, own_h, own_l, p, b, group, first, outer, made_width, R, MADE
            )
            total_R = tl.sum(own * of_head, 1)
        if sums_ptr is not None:
            outer_R = first + tl.arange(0, R)
            tl.store(
                sums_ptr + sequence * outer + outer_R,
                total_R.to(sums_ptr.dtype.element_ty),
                mask=outer_R < outer,
            )
        made += of_head
    place, valid = _tile(
        made_p,
        made_b,
        made_h,
        made_l,
        p,
        b,
        0 if SUMMED else own_head,
        first,
        outer,
        made_width,
        R,
        MADE,
    )
    tl.store(made_ptr + place, made.to(made_ptr.dtype.element_ty), mask=valid)
