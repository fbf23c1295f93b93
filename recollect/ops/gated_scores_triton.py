"""Kernels of `gated_scores`: blocks of scores are made, used and forgotten on chip, forward and backward.

With s_ij = q_i . k_j, e_ij = exp(row_i + column_j), w = s e + skip 1[i = j], and the gradients dy of y and dtotal of total:

    dw_ij = dy_i . v_j + dtotal_i        ds = dw e        t = dw s e
    dq_i = sum_j ds_ij k_j      dk_j = sum_i ds_ij q_i      dv_j = sum_i w_ij dy_i
    drow_i = sum_j t_ij         dcolumn_j = sum_i t_ij      dskip = sum over rows and i of dw_ii

One program of the forward and of the first backward kernel has a block of queries and walks over the keys they see; one of the
second backward kernel has a block of keys and walks over the queries that see them. Queries and keys that heads share are
summed over by walking over the heads as well. Nothing is kept for the backward but the inputs.

Shapes as in `gated_scores.py`; in a kernel Q queries and T keys of a block.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64  # positions: a square of scores is 32 floats per thread of four warps
WIDEST = 128  # channels that a program holds beside them


def fits(key_width: int, value_width: int) -> bool:
    return max(key_width, value_width) <= WIDEST


def gated_scores(
    q: Tensor, k: Tensor, v: Tensor, row: Tensor, column: Tensor, skip: Tensor | None, where: Tensor | None
) -> tuple[Tensor, Tensor]:
    return _GatedScores.apply(q, k, v, row, column, skip, where)


class _GatedScores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, row: Tensor, column: Tensor, skip: Tensor | None, where: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        population, batch, heads, _, values = v.shape
        queries = q.shape[3]
        q, k, v = (_dense(x) for x in (q, k, v))
        row, column = (x.double().expand(population, batch, heads, -1).contiguous() for x in (row, column))
        skip = None if skip is None else skip.contiguous()
        where = None if where is None else where.contiguous()
        y = v.new_empty(population, batch, queries, heads, values).transpose(2, 3)
        total = torch.empty(population, batch, heads, queries, dtype=torch.float32, device=v.device)
        plan = _plan(q, k, v, where)
        _forward[(population * batch * heads * plan["query_blocks"],)](
            *_strided(q, k, v, y), row, column, skip, where, total, *plan["sizes"], **plan["blocks"]
        )
        ctx.save_for_backward(q, k, v, row, column, skip, where)
        return y, total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, row, column, skip, where = ctx.saved_tensors
        dy, dtotal = _dense(grads[0]), grads[1].contiguous()
        population, batch, heads = v.shape[:3]
        plan = _plan(q, k, v, where)
        dq, dk, dv = (_heads_last(x) for x in (q, k, v))
        drow, dcolumn = torch.empty_like(row), torch.empty_like(column)
        groups = population * batch * q.shape[2]
        gates = (row, column, skip, where, dtotal)
        _query_backward[(groups * plan["query_blocks"],)](
            *_strided(q, k, v, dy, dq), *gates, drow, *plan["sizes"], **plan["blocks"]
        )
        # Of each block of keys: what its diagonal adds to the gradient of the direct path.
        diagonal = None if skip is None else torch.empty(population, batch, heads, plan["key_blocks"], device=v.device)
        _key_backward[(groups * plan["key_blocks"],)](
            *_strided(q, k, v, dy, dk, dv), *gates, dcolumn, diagonal, *plan["sizes"], **plan["blocks"]
        )
        return dq, dk, dv, drow, dcolumn, None if diagonal is None else diagonal.sum((1, 3)), None


def _dense(x: Tensor) -> Tensor:
    """With its channels beside each other, all that a kernel asks for."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _heads_last(like: Tensor) -> Tensor:
    """Like q, k or v, with the channels of all heads of a position beside each other, as a product's gradient has them."""
    population, batch, heads, length, width = like.shape
    return like.new_empty(population, batch, length, heads, width).transpose(2, 3)


def _strided(*tensors: Tensor) -> list[Any]:
    arguments: list[Any] = []
    for tensor in tensors:
        arguments += [tensor, *tensor.stride()[:4]]
    return arguments


def _plan(q: Tensor, k: Tensor, v: Tensor, where: Tensor | None) -> dict[str, Any]:
    _, batch, groups, queries, keys_width = q.shape
    heads, length, values_width = v.shape[2:]
    query_block = min(BLOCK, max(16, triton.next_power_of_2(queries)))
    key_block = min(BLOCK, max(16, triton.next_power_of_2(length)))
    return {
        "query_blocks": triton.cdiv(queries, query_block),
        "key_blocks": triton.cdiv(length, key_block),
        "sizes": (batch, heads, queries, length, keys_width, values_width),
        "blocks": {
            "SHARED": groups == 1 and heads > 1,
            "EVERYWHERE": where is None,
            "Q": query_block,
            "T": key_block,
            "D": max(16, triton.next_power_of_2(keys_width)),
            "E": max(16, triton.next_power_of_2(values_width)),
            "PRECISION": "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32",
            "num_warps": 4,
        },
    }


@triton.jit
def _load(
    pointer, p_stride, b_stride, h_stride, l_stride, p, b, h, first, length, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Positions from `first` on of one sequence and head; zeros beyond the end."""
    place, valid = _tile(p_stride, b_stride, h_stride, l_stride, p, b, h, first, length, width, ROWS, COLUMNS)
    return tl.load(pointer + place, mask=valid, other=0.0)


@triton.jit
def _tile(p_stride, b_stride, h_stride, l_stride, p, b, h, first, length, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    position = first + tl.arange(0, ROWS)
    channel = tl.arange(0, COLUMNS)
    place = p * p_stride + b * b_stride + h * h_stride + position[:, None] * l_stride + channel[None, :]
    return place, (position < length)[:, None] & (channel < width)[None, :]


@triton.jit
def _places(where_ptr, b, first, queries, EVERYWHERE: tl.constexpr, Q: tl.constexpr):
    """At which position each query stands; one beyond the last stands before everything and sees nothing."""
    query = first + tl.arange(0, Q)
    if EVERYWHERE:
        places = tl.where(query < queries, query, -1)
    else:
        places = tl.load(where_ptr + b * queries + query, mask=query < queries, other=-1).to(tl.int32)
    return places


@triton.jit
def _gates(row_ptr, column_ptr, sequence, first_query, first_key, queries, length, places, Q: tl.constexpr, T: tl.constexpr):
    """e_ij of a block, zero where the query does not see the key."""
    query, key = first_query + tl.arange(0, Q), first_key + tl.arange(0, T)
    row = tl.load(row_ptr + sequence * queries + query, mask=query < queries, other=0.0)
    column = tl.load(column_ptr + sequence * length + key, mask=key < length, other=0.0)
    log = (row[:, None] + column[None, :]).to(tl.float32)
    seen = (places[:, None] >= key[None, :]) & (key < length)[None, :]
    return tl.exp(tl.where(seen, log, float("-inf")))


@triton.jit
def _forward(
    q_ptr, q_p, q_b, q_h, q_l, k_ptr, k_p, k_b, k_h, k_l, v_ptr, v_p, v_b, v_h, v_l, y_ptr, y_p, y_b, y_h, y_l,
    row_ptr, column_ptr, skip_ptr, where_ptr, total_ptr, batch, heads, queries, length, key_width, value_width,
    SHARED: tl.constexpr, EVERYWHERE: tl.constexpr, Q: tl.constexpr, T: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(queries, Q)
    sequence = (tl.program_id(0) // blocks).to(tl.int64)
    first = (tl.program_id(0) % blocks) * Q
    h, b, p = sequence % heads, sequence // heads % batch, sequence // heads // batch
    group = h * 0 if SHARED else h
    places = _places(where_ptr, b, first, queries, EVERYWHERE, Q)
    q = _load(q_ptr, q_p, q_b, q_h, q_l, p, b, group, first, queries, key_width, Q, D)
    y = tl.zeros([Q, E], dtype=tl.float32)
    total = tl.zeros([Q], dtype=tl.float32)
    last = tl.minimum(first + Q, length) if EVERYWHERE else length
    for start in range(0, last, T):
        k = _load(k_ptr, k_p, k_b, k_h, k_l, p, b, group, start, length, key_width, T, D)
        v = _load(v_ptr, v_p, v_b, v_h, v_l, p, b, h, start, length, value_width, T, E)
        e = _gates(row_ptr, column_ptr, sequence, first, start, queries, length, places, Q, T)
        w = tl.dot(q, tl.trans(k), input_precision=PRECISION) * e
        if skip_ptr is not None:
            own = places[:, None] == (start + tl.arange(0, T))[None, :]
            w += tl.where(own, tl.load(skip_ptr + p * heads + h), 0.0)
        total += tl.sum(w, 1)
        y += tl.dot(w.to(v.dtype), v, input_precision=PRECISION)
    place, valid = _tile(y_p, y_b, y_h, y_l, p, b, h, first, queries, value_width, Q, E)
    tl.store(y_ptr + place, y.to(y_ptr.dtype.element_ty), mask=valid)
    query = first + tl.arange(0, Q)
    tl.store(total_ptr + sequence * queries + query, total, mask=query < queries)


@triton.jit
def _query_backward(
    q_ptr, q_p, q_b, q_h, q_l, k_ptr, k_p, k_b, k_h, k_l, v_ptr, v_p, v_b, v_h, v_l, g_ptr, g_p, g_b, g_h, g_l,
    dq_ptr, dq_p, dq_b, dq_h, dq_l, row_ptr, column_ptr, skip_ptr, where_ptr, dtotal_ptr, drow_ptr,
    batch, heads, queries, length, key_width, value_width,
    SHARED: tl.constexpr, EVERYWHERE: tl.constexpr, Q: tl.constexpr, T: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(queries, Q)
    groups = 1 if SHARED else heads
    program = (tl.program_id(0) // blocks).to(tl.int64)
    first = (tl.program_id(0) % blocks) * Q
    group, b, p = program % groups, program // groups % batch, program // groups // batch
    places = _places(where_ptr, b, first, queries, EVERYWHERE, Q)
    query = first + tl.arange(0, Q)
    q = _load(q_ptr, q_p, q_b, q_h, q_l, p, b, group, first, queries, key_width, Q, D)
    dq = tl.zeros([Q, D], dtype=tl.float32)
    last = tl.minimum(first + Q, length) if EVERYWHERE else length
    for h in range(group, heads if SHARED else group + 1):
        sequence = (p * batch + b) * heads + h
        g = _load(g_ptr, g_p, g_b, g_h, g_l, p, b, h, first, queries, value_width, Q, E).to(q.dtype)
        dtotal = tl.load(dtotal_ptr + sequence * queries + query, mask=query < queries, other=0.0)
        drow = tl.zeros([Q], dtype=tl.float32)
        for start in range(0, last, T):
            k = _load(k_ptr, k_p, k_b, k_h, k_l, p, b, group, start, length, key_width, T, D)
            v = _load(v_ptr, v_p, v_b, v_h, v_l, p, b, h, start, length, value_width, T, E)
            e = _gates(row_ptr, column_ptr, sequence, first, start, queries, length, places, Q, T)
            ds = (tl.dot(g, tl.trans(v).to(q.dtype), input_precision=PRECISION) + dtotal[:, None]) * e
            drow += tl.sum(ds * tl.dot(q, tl.trans(k), input_precision=PRECISION), 1)
            dq += tl.dot(ds.to(k.dtype), k, input_precision=PRECISION)
        tl.store(drow_ptr + sequence * queries + query, drow.to(tl.float64), mask=query < queries)
    place, valid = _tile(dq_p, dq_b, dq_h, dq_l, p, b, group, first, queries, key_width, Q, D)
    tl.store(dq_ptr + place, dq.to(dq_ptr.dtype.element_ty), mask=valid)


@triton.jit
def _key_backward(
    q_ptr, q_p, q_b, q_h, q_l, k_ptr, k_p, k_b, k_h, k_l, v_ptr, v_p, v_b, v_h, v_l, g_ptr, g_p, g_b, g_h, g_l,
    dk_ptr, dk_p, dk_b, dk_h, dk_l, dv_ptr, dv_p, dv_b, dv_h, dv_l,
    row_ptr, column_ptr, skip_ptr, where_ptr, dtotal_ptr, dcolumn_ptr, diagonal_ptr,
    batch, heads, queries, length, key_width, value_width,
    SHARED: tl.constexpr, EVERYWHERE: tl.constexpr, Q: tl.constexpr, T: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(length, T)
    groups = 1 if SHARED else heads
    program = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    start = block * T
    group, b, p = program % groups, program // groups % batch, program // groups // batch
    key = start + tl.arange(0, T)
    k = _load(k_ptr, k_p, k_b, k_h, k_l, p, b, group, start, length, key_width, T, D)
    dk = tl.zeros([T, D], dtype=tl.float32)
    for h in range(group, heads if SHARED else group + 1):
        sequence = (p * batch + b) * heads + h
        v = _load(v_ptr, v_p, v_b, v_h, v_l, p, b, h, start, length, value_width, T, E)
        dv = tl.zeros([T, E], dtype=tl.float32)
        dcolumn = tl.zeros([T], dtype=tl.float32)
        own_sum = tl.zeros([T], dtype=tl.float32)
        # Queries before this block see nothing of it, if each stands at its own place.
        for first in range(start // Q * Q if EVERYWHERE else 0, queries, Q):
            places = _places(where_ptr, b, first, queries, EVERYWHERE, Q)
            query = first + tl.arange(0, Q)
            q = _load(q_ptr, q_p, q_b, q_h, q_l, p, b, group, first, queries, key_width, Q, D)
            g = _load(g_ptr, g_p, g_b, g_h, g_l, p, b, h, first, queries, value_width, Q, E).to(q.dtype)
            dtotal = tl.load(dtotal_ptr + sequence * queries + query, mask=query < queries, other=0.0)
            e = _gates(row_ptr, column_ptr, sequence, first, start, queries, length, places, Q, T)
            s = tl.dot(q, tl.trans(k), input_precision=PRECISION)
            w = s * e
            dw = tl.dot(g, tl.trans(v).to(q.dtype), input_precision=PRECISION) + dtotal[:, None]
            if skip_ptr is not None:
                own = places[:, None] == key[None, :]
                own_sum += tl.sum(tl.where(own, dw, 0.0), 0)
                w += tl.where(own, tl.load(skip_ptr + p * heads + h), 0.0)
            dv += tl.dot(tl.trans(w.to(q.dtype)), g, input_precision=PRECISION)
            ds = dw * e
            dcolumn += tl.sum(ds * s, 0)
            dk += tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision=PRECISION)
        tl.store(dcolumn_ptr + sequence * length + key, dcolumn.to(tl.float64), mask=key < length)
        if diagonal_ptr is not None:
            tl.store(diagonal_ptr + sequence * blocks + block, tl.sum(own_sum, 0))
        place, valid = _tile(dv_p, dv_b, dv_h, dv_l, p, b, h, start, length, value_width, T, E)
        tl.store(dv_ptr + place, dv.to(dv_ptr.dtype.element_ty), mask=valid)
    place, valid = _tile(dk_p, dk_b, dk_h, dk_l, p, b, group, start, length, key_width, T, D)
    tl.store(dk_ptr + place, dk.to(dk_ptr.dtype.element_ty), mask=valid)
