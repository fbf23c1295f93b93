"""Look-up of shared ids in one table per member,
and its gradient as a sum over runs of equal ids, without atomics.

    out[p, n] = table[p, ids[n]]        dtable[p, v] = sum of g[p, n] over the n with ids[n] = v

Shapes: P population, V entries, D width, N = B * L ids.

The ids are the same for all members, so they are sorted once. A program then sums the runs inside a
chunk of the sorted list. One id may fill most of the list (the filler of a task): a run that
crosses the border of a chunk writes its part of the sum to a separate buffer, and a second pass
adds up the parts. Every sum has one order, which depends only on the ids.
"""

# mypy: disable-error-code="no-untyped-def, arg-type, call-arg"
# Triton types the arguments of a kernel itself, at the first call.

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# Rows and columns of a program: 16 KB of fp32, 32 numbers per thread of four warps. The part of a
# row is 256 bytes, two whole cache lines, wherever the row lies. The parts that chunks leave are at
# most 2 / CHUNK of the gradient.
CHUNK = 64
WIDEST_BLOCK = 64
WARPS = 4
PARTS = 32  # of one run, read at a time by the second pass


def embedding(table_PVD: Tensor, ids_BL: Tensor) -> Tensor:
    """See embedding.embedding."""
    return _Embedding.apply(table_PVD, ids_BL)


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table_PVD: Tensor, ids_BL: Tensor) -> Tensor:
        population, entries, width = table_PVD.shape
        ctx.save_for_backward(ids_BL)
        ctx.entries = entries
        out = table_PVD.new_empty(population, *ids_BL.shape, width)
        chunks, block, blocks = _blocks(ids_BL, width)
        _look_up[(population * chunks * blocks,)](
            table_PVD.contiguous(),
            ids_BL.contiguous(),
            out,
            ids_BL.numel(),
            entries,
            width,
            chunks,
            CHUNK,
            block,
            num_warps=WARPS,
        )
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (ids_BL,) = ctx.saved_tensors
        g = grads[0].contiguous()
        population, width = g.shape[0], g.shape[-1]
        # Sorting by four bytes instead of eight; stable, so that equal ids are summed in the order
        # of the rows.
        ids_N, order_N = torch.sort(ids_BL.flatten().to(torch.int32), stable=True)
        chunks, block, blocks = _blocks(ids_BL, width)
        dtable_PVD = g.new_zeros(population, ctx.entries, width)
        parts_PC2D = torch.empty(population, chunks, 2, width, dtype=torch.float32, device=g.device)
        _sum_runs[(population * chunks * blocks,)](
            g,
            ids_N,
            order_N,
            dtable_PVD,
            parts_PC2D,
            len(ids_N),
            ctx.entries,
            width,
            chunks,
            CHUNK,
            block,
            num_warps=WARPS,
        )
        if chunks > 1:
            _join_runs[(population * (chunks - 1) * blocks,)](
                ids_N,
                dtable_PVD,
                parts_PC2D,
                ctx.entries,
                width,
                chunks,
                CHUNK,
                block,
                PARTS,
                num_warps=WARPS,
            )
        return dtable_PVD, None


def _blocks(ids: Tensor, width: int) -> tuple[int, int, int]:
    """Return the chunks of ids, the columns of a block, and the blocks of columns."""
    block = min(triton.next_power_of_2(width), WIDEST_BLOCK)
    return triton.cdiv(ids.numel(), CHUNK), block, triton.cdiv(width, block)


@triton.jit
def _place(chunks, D, BLOCK: tl.constexpr):
    """Return member, chunk and columns of this program; the blocks of one row are neighbours."""
    program, blocks = tl.program_id(0), tl.cdiv(D, BLOCK)
    columns = (program % blocks) * BLOCK + tl.arange(0, BLOCK)
    return (program // blocks // chunks).to(tl.int64), (program // blocks) % chunks, columns


@triton.jit
def _look_up(table, ids, out, N, V, D, chunks, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    member, chunk, columns = _place(chunks, D, BLOCK)
    rows = chunk * CHUNK + tl.arange(0, CHUNK)
    mask = (rows < N)[:, None] & (columns < D)[None, :]
    sources = member * V + tl.load(ids + rows, mask=rows < N, other=0)
    x = tl.load(table + sources[:, None] * D + columns[None, :], mask=mask)
    tl.store(out + (member * N + rows)[:, None] * D + columns[None, :], x, mask=mask)


@triton.jit
def _sum_runs(
    g, ids, order, dtable, parts, N, V, D, chunks, CHUNK: tl.constexpr, BLOCK: tl.constexpr
):
    """Sum all runs inside a chunk; sums of runs that cross its borders go to parts[0] (began
    before) or parts[1].
    """
    member, chunk, columns = _place(chunks, D, BLOCK)
    rows = chunk * CHUNK + tl.arange(0, CHUNK)
    here = rows < N
    id_here = tl.load(ids + rows, mask=here, other=-1)
    id_before = tl.load(ids + rows - 1, mask=here & (rows > 0), other=-1)
    id_behind = tl.load(ids + rows + 1, mask=rows + 1 < N, other=-1)
    sources = member * N + tl.load(order + rows, mask=here, other=0)
    x = tl.load(
        g + sources[:, None] * D + columns[None, :],
        mask=here[:, None] & (columns < D)[None, :],
        other=0.0,
    )

    # A running sum that restarts with every run; at the end of a run it is the run's sum.
    begins = (id_here != id_before).to(tl.int32)[:, None] + tl.zeros([CHUNK, BLOCK], tl.int32)
    _, sums = tl.associative_scan((begins, x.to(tl.float32)), 0, _add_unless_it_begins)

    id_before_chunk = tl.load(ids + chunk * CHUNK - 1, mask=chunk > 0, other=-1)
    began_here, came_in = id_here != id_before_chunk, id_here == id_before_chunk
    ends = here & (id_here != id_behind)
    goes_on = here & (rows % CHUNK == CHUNK - 1) & (id_here == id_behind)
    entries = (member * V + id_here)[:, None] * D + columns[None, :]
    tl.store(
        dtable + entries,
        sums.to(dtable.dtype.element_ty),
        mask=(ends & began_here)[:, None] & (columns < D)[None, :],
    )
    slots = ((member * chunks + chunk) * 2 + tl.where(came_in, 0, 1))[:, None] * D + columns[
        None, :
    ]
    tl.store(
        parts + slots, sums, mask=(goes_on | (ends & came_in))[:, None] & (columns < D)[None, :]
    )


@triton.jit
def _add_unless_it_begins(begins_a, sum_a, begins_b, sum_b):
    return begins_a | begins_b, tl.where(begins_b != 0, sum_b, sum_a + sum_b)


@triton.jit
def _join_runs(
    ids, dtable, parts, V, D, chunks, CHUNK: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr
):
    """Add up all parts of a run that begins in this chunk and continues beyond it."""
    member, chunk, columns = _place(chunks - 1, D, BLOCK)
    id_before_chunk = tl.load(ids + chunk * CHUNK - 1, mask=chunk > 0, other=-1)
    last_id = tl.load(ids + chunk * CHUNK + CHUNK - 1)
    leaves = tl.load(ids + chunk * CHUNK + CHUNK) == last_id
    if leaves & (last_id != id_before_chunk):
        within = columns < D
        slot = (member * chunks + chunk) * 2
        total = tl.load(parts + (slot + 1) * D + columns, mask=within, other=0.0)
        later = chunk + 1
        more = leaves
        while more:
            others = later + tl.arange(0, PARTS)
            same = tl.load(ids + others * CHUNK, mask=others < chunks, other=-1) == last_id
            slots = (member * chunks + others) * 2
            more_parts = tl.load(
                parts + slots[:, None] * D + columns[None, :],
                mask=same[:, None] & within[None, :],
                other=0.0,
            )
            total += tl.sum(more_parts, 0)
            later += PARTS
            more = tl.sum(same.to(tl.int32), 0) == PARTS
        tl.store(
            dtable + (member * V + last_id) * D + columns,
            total.to(dtable.dtype.element_ty),
            mask=within,
        )
