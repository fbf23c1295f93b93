"""Kernels of `block_heads` in its composed form. The forward reads c and u once; the backward reads
them and all gradients once.

    dc = dq W_q^T + dk W_k^T scale + dgates G_c^T + (the gradient of c itself)
    du = dv W_v^T + dgates G_u^T        dW_q = c^T dq, and so on        dG_c = c^T dgates

A program has a tile of channels, which consists of whole blocks, and walks through a part of a
member's rows with the tile's weights on chip, including the zeros around the small blocks: tensor
cores gain nothing from the blocks alone. It writes its share of the gates, and in the backward its
share of the weights' gradients; these are added up in a fixed order.

Shapes: P population, B batch, L length, M = B L rows of one member, N blocks of rows, T tiles of
channels; the others as in plain.py. c and u are float32 or bfloat16, weights and their
gradients float32.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.block_diagonal import block_diagonal
from recollect.ops.dispatch import product_precision
from recollect.ops.layout import at_positions, places
from recollect.ops.triton_rows import as_rows, sum_blocks
from recollect.ops.triton_tiles import padded

# Columns of a tile, 128 bytes of a row in bfloat16; a square of weights is 32 numbers per thread.
COLUMNS = 64
ROWS = 64  # of a tile
# Rows of a program: reading and writing weights is then a few per cent of the work on rows.
BLOCK = 512
MOST_GATES = 64


def fits(size: int, gates: int) -> bool:
    """Whether whole blocks fill a tile, and the gates are few enough."""
    return COLUMNS % size == 0 and gates <= MOST_GATES


def block_heads(
    c: Tensor,
    u: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    gate_c: Tensor,
    gate_u: Tensor,
    scale: float,
    where: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return q, k, v, gates and c; q and c only at the positions `where`, if given."""
    others = key, value, gate_c, gate_u, scale, where
    if where is None:
        return _BlockHeads.apply(c, u, query, *others)
    _, k, v, gates, c = _BlockHeads.apply(c, u, None, *others)
    return block_diagonal(c, query), k, v, gates, c


class _BlockHeads(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        c: Tensor,
        u: Tensor,
        query: Tensor | None,
        key: Tensor,
        value: Tensor,
        gate_c: Tensor,
        gate_u: Tensor,
        scale: float,
        where: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        c_PME, u_PME = as_rows(c), as_rows(u)
        weights = [
            None if weight is None else weight.contiguous()
            for weight in (query, key, value, gate_c, gate_u)
        ]
        population, rows, _ = c_PME.shape
        gates, tiles = gate_c.shape[2], triton.cdiv(c_PME.shape[2], COLUMNS)
        q, k, v = (
            None if weight is None else c.new_empty(c.shape) for weight in (query, key, value)
        )
        shares_PTMG = torch.empty(
            population, tiles, rows, gates, dtype=torch.float32, device=c.device
        )
        _forward[(population * triton.cdiv(rows, BLOCK) * tiles,)](
            c_PME, u_PME, *weights, q, k, v, shares_PTMG, *_sizes(c_PME, u_PME, gates), scale,
            **_constants(key, gates),
        )  # fmt: skip
        ctx.save_for_backward(c_PME, u_PME, *weights, where)
        ctx.scale, ctx.shape = scale, c.shape
        ctx.set_materialize_grads(False)
        seen = c.view_as(c) if where is None else at_positions(c, where)
        return q, k, v, shares_PTMG.sum(1).view(*c.shape[:-1], gates), seen

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        c_PME, u_PME, *weights, where = ctx.saved_tensors
        query, key, _, gate_c, _ = weights
        population, rows, width = c_PME.shape
        size, gates = key.shape[-1], gate_c.shape[2]
        dq, dk, dv, dgates, dseen = (None if grad is None else grad.contiguous() for grad in grads)
        dk, dv = (c_PME.new_zeros(c_PME.shape) if grad is None else grad for grad in (dk, dv))
        dq = c_PME.new_zeros(c_PME.shape) if query is not None and dq is None else dq
        dgates = (
            torch.zeros(population, rows, gates, device=c_PME.device) if dgates is None else dgates
        )
        blocks = triton.cdiv(rows, BLOCK)
        dc_PME, du_PME = torch.empty_like(c_PME), torch.empty_like(u_PME)
        numbers = [width * size] * 3 + [width * gates] * 2
        shares_PNW = torch.empty(
            population, blocks, sum(numbers), dtype=torch.float32, device=c_PME.device
        )
        _backward[(population * blocks * triton.cdiv(width, COLUMNS),)](
            c_PME, u_PME, *weights, dq, dk, dv, dgates, dseen if where is None else None,
            dc_PME, du_PME, shares_PNW,
            *_sizes(c_PME, u_PME, gates), ctx.scale, **_constants(key, gates),
        )  # fmt: skip
        dquery, *others = sum_blocks(shares_PNW).split(numbers, dim=1)
        dkey, dvalue, dgate_c, dgate_u = (
            part.view(like.shape) for part, like in zip(others, weights[1:], strict=True)
        )
        dc = dc_PME.view(ctx.shape)
        if where is not None and dseen is not None:
            dc.scatter_add_(2, places(where, dc), dseen)
        dquery = None if query is None else dquery.view(query.shape)
        return dc, du_PME.view(ctx.shape), dquery, dkey, dvalue, dgate_c, dgate_u, None, None


def _sizes(c_PME: Tensor, u_PME: Tensor, gates: int) -> tuple[int, ...]:
    return (
        *c_PME.shape[1:],
        gates,
        c_PME.stride(0),
        c_PME.stride(1),
        u_PME.stride(0),
        u_PME.stride(1),
    )


def _constants(key_PROO: Tensor, gates: int) -> dict[str, Any]:
    return {
        "SIZE": key_PROO.shape[-1],
        "BLOCK": BLOCK,
        "ROWS": ROWS,
        "COLUMNS": COLUMNS,
        "GATES": padded(gates),
        "PRECISION": product_precision("tf32x3"),
        "num_warps": 4,
        "num_stages": 1,  # several programs share a multiprocessor: some load while one multiplies
    }


@triton.jit
def _square(width, first, SIZE: tl.constexpr, COLUMNS: tl.constexpr):
    """Return where the elements of a square of the block-diagonal matrix are among a member's
    weights, and which of them are not zero.
    """
    row, column = first + tl.arange(0, COLUMNS)[:, None], first + tl.arange(0, COLUMNS)[None, :]
    return row * SIZE + column % SIZE, (row // SIZE == column // SIZE) & (row < width)


@triton.jit
def _few(width, gates, first, COLUMNS: tl.constexpr, GATES: tl.constexpr):
    """Return the same for the weights of the gates."""
    row, gate = first + tl.arange(0, COLUMNS)[:, None], tl.arange(0, GATES)[None, :]
    return row * gates + gate, (row < width) & (gate < gates)


@triton.jit
def _forward(
    c_ptr, u_ptr, query_ptr, key_ptr, value_ptr, gate_c_ptr, gate_u_ptr,
    q_ptr, k_ptr, v_ptr, shares_ptr,
    rows, width, gates, c_member, c_row, u_member, u_row, scale,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    GATES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    tiles, blocks = tl.cdiv(width, COLUMNS), tl.cdiv(rows, BLOCK)
    tile, block = tl.program_id(0) % tiles, tl.program_id(0) // tiles % blocks
    member = (tl.program_id(0) // tiles // blocks).to(tl.int64)
    dtype = c_ptr.dtype.element_ty
    at, there = _square(width, tile * COLUMNS, SIZE, COLUMNS)
    if query_ptr is not None:
        query = tl.load(query_ptr + member * width * SIZE + at, mask=there, other=0.0).to(dtype)
    key = (tl.load(key_ptr + member * width * SIZE + at, mask=there, other=0.0) * scale).to(dtype)
    value = tl.load(value_ptr + member * width * SIZE + at, mask=there, other=0.0).to(dtype)
    at, there = _few(width, gates, tile * COLUMNS, COLUMNS, GATES)
    gate_c = tl.load(gate_c_ptr + member * width * gates + at, mask=there, other=0.0).to(dtype)
    gate_u = tl.load(gate_u_ptr + member * width * gates + at, mask=there, other=0.0).to(dtype)
    column = tile * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    gate = tl.arange(0, GATES)[None, :]
    for first in range(block * BLOCK, tl.minimum((block + 1) * BLOCK, rows), ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        inside = (row < rows) & (column < width)
        c = tl.load(
            c_ptr + member * c_member + row.to(tl.int64) * c_row + column, mask=inside, other=0.0
        )
        u = tl.load(
            u_ptr + member * u_member + row.to(tl.int64) * u_row + column, mask=inside, other=0.0
        )
        written = (member * rows + row) * width + column
        if query_ptr is not None:
            tl.store(
                q_ptr + written, tl.dot(c, query, input_precision=PRECISION).to(dtype), mask=inside
            )
        tl.store(k_ptr + written, tl.dot(c, key, input_precision=PRECISION).to(dtype), mask=inside)
        tl.store(
            v_ptr + written, tl.dot(u, value, input_precision=PRECISION).to(dtype), mask=inside
        )
        share = tl.dot(c, gate_c, input_precision=PRECISION) + tl.dot(
            u, gate_u, input_precision=PRECISION
        )
        written = ((member * tiles + tile) * rows + row) * gates + gate
        tl.store(shares_ptr + written, share, mask=(row < rows) & (gate < gates))


@triton.jit
def _backward(
    c_ptr, u_ptr, query_ptr, key_ptr, value_ptr, gate_c_ptr, gate_u_ptr,
    dq_ptr, dk_ptr, dv_ptr, dgates_ptr, dseen_ptr,
    dc_ptr, du_ptr, shares_ptr, rows, width, gates, c_member, c_row, u_member, u_row, scale,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    GATES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    tiles, blocks = tl.cdiv(width, COLUMNS), tl.cdiv(rows, BLOCK)
    tile, block = tl.program_id(0) % tiles, tl.program_id(0) // tiles % blocks
    member = (tl.program_id(0) // tiles // blocks).to(tl.int64)
    dtype = c_ptr.dtype.element_ty
    at, there = _square(width, tile * COLUMNS, SIZE, COLUMNS)
    gate_at, gate_there = _few(width, gates, tile * COLUMNS, COLUMNS, GATES)
    if query_ptr is not None:
        query = tl.load(query_ptr + member * width * SIZE + at, mask=there, other=0.0).to(dtype)
    key = (tl.load(key_ptr + member * width * SIZE + at, mask=there, other=0.0) * scale).to(dtype)
    value = tl.load(value_ptr + member * width * SIZE + at, mask=there, other=0.0).to(dtype)
    gate_c = tl.load(gate_c_ptr + member * width * gates + gate_at, mask=gate_there, other=0.0).to(
        dtype
    )
    gate_u = tl.load(gate_u_ptr + member * width * gates + gate_at, mask=gate_there, other=0.0).to(
        dtype
    )
    dquery = tl.zeros([COLUMNS, COLUMNS], dtype=tl.float32)
    dkey = tl.zeros([COLUMNS, COLUMNS], dtype=tl.float32)
    dvalue = tl.zeros([COLUMNS, COLUMNS], dtype=tl.float32)
    dgate_c = tl.zeros([COLUMNS, GATES], dtype=tl.float32)
    dgate_u = tl.zeros([COLUMNS, GATES], dtype=tl.float32)
    column = tile * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    gate = tl.arange(0, GATES)[None, :]
    for first in range(block * BLOCK, tl.minimum((block + 1) * BLOCK, rows), ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        inside = (row < rows) & (column < width)
        dense = (member * rows + row) * width + column
        dgates_at = (member * rows + row) * gates + gate
        dgates = tl.load(dgates_ptr + dgates_at, mask=(row < rows) & (gate < gates), other=0.0).to(
            dtype
        )
        u = tl.load(
            u_ptr + member * u_member + row.to(tl.int64) * u_row + column, mask=inside, other=0.0
        )
        dv = tl.load(dv_ptr + dense, mask=inside, other=0.0).to(dtype)
        dvalue += tl.dot(tl.trans(u), dv, input_precision=PRECISION)
        dgate_u += tl.dot(tl.trans(u), dgates, input_precision=PRECISION)
        du = tl.dot(dv, tl.trans(value), input_precision=PRECISION)
        du += tl.dot(dgates, tl.trans(gate_u), input_precision=PRECISION)
        tl.store(du_ptr + dense, du.to(dtype), mask=inside)
        c = tl.load(
            c_ptr + member * c_member + row.to(tl.int64) * c_row + column, mask=inside, other=0.0
        )
        dk = tl.load(dk_ptr + dense, mask=inside, other=0.0).to(dtype)
        dkey += tl.dot(tl.trans(c), dk, input_precision=PRECISION)
        dgate_c += tl.dot(tl.trans(c), dgates, input_precision=PRECISION)
        dc = tl.dot(dk, tl.trans(key), input_precision=PRECISION)
        dc += tl.dot(dgates, tl.trans(gate_c), input_precision=PRECISION)
        if query_ptr is not None:
            dq = tl.load(dq_ptr + dense, mask=inside, other=0.0).to(dtype)
            dquery += tl.dot(tl.trans(c), dq, input_precision=PRECISION)
            dc += tl.dot(dq, tl.trans(query), input_precision=PRECISION)
        if dseen_ptr is not None:
            dc += tl.load(dseen_ptr + dense, mask=inside, other=0.0)
        tl.store(dc_ptr + dense, dc.to(dtype), mask=inside)
    # Stored side by side: the gradients of the three projections (only of their blocks) and of the
    # gates' weights. They are zeros for queries made elsewhere, since all shares are added up.
    shares_ptr += (member * blocks + block) * width * (3 * SIZE + 2 * gates)
    tl.store(shares_ptr + at, dquery, mask=there)
    tl.store(shares_ptr + width * SIZE + at, dkey * scale, mask=there)
    tl.store(shares_ptr + 2 * width * SIZE + at, dvalue, mask=there)
    tl.store(shares_ptr + 3 * width * SIZE + gate_at, dgate_c, mask=gate_there)
    tl.store(shares_ptr + width * (3 * SIZE + gates) + gate_at, dgate_u, mask=gate_there)
