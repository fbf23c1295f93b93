"""Unit lower triangular systems of up to 64 unknowns, one program for each matrix and block of right-hand sides.

    x_i = r_i - sum_{j<i} a_ij x_j

Shapes: M matrices, T unknowns, E right-hand sides of each; T <= 64 in up to four blocks of 16.

Between blocks of 16 unknowns the sum is a product, inside a block it goes row by row: true forward substitution in float32, as
precise as the library's solve, with 16 short steps a block instead of one long chain. x stays in registers, so a program reads
its matrix and its right-hand sides once and writes x once.

Backward: dr = (I + a)^-T dx, and da = -strictly_lower(dr x^T). Both axes reversed, a transposed matrix is lower triangular
again: the same kernel solves it, with the strides negated. No inverse is formed or kept.
"""

# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 16  # the smallest product of tl.dot
# A block of x, 16 x 32 floats, is 16 registers of a lane, 64 for all four. With one warp the sums over rows are shuffles,
# without a barrier; a wide E is more programs, whose re-reads of the matrix (16 KB) come from the cache.
COLUMNS, WARPS = 32, 1


def unit_lower_solve(a: Tensor, r: Tensor) -> Tensor:
    """x (..., T, E) from a (..., T, T) and r (..., T, E) with the same leading axes."""
    steps, columns = r.shape[-2:]
    a_MTT, r_MTE = a.reshape(-1, steps, steps), r.reshape(-1, steps, columns)
    solved: Tensor = _Solve.apply(a_MTT, r_MTE)
    return solved.view(r.shape)


class _Solve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a_MTT: Tensor, r_MTE: Tensor) -> Tensor:
        a_MTT = a_MTT.contiguous()
        x_MTE = _solved(a_MTT, r_MTE, transposed=False)
        ctx.save_for_backward(a_MTT, x_MTE)
        return x_MTE

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor]:
        a_MTT, x_MTE = ctx.saved_tensors
        dr_MTE = _solved(a_MTT, grads[0], transposed=True)
        if not ctx.needs_input_grad[0]:
            return None, dr_MTE
        nothing = x_MTE.new_zeros(1, 1, 1)  # not read: beta = 0; the sign comes with the product, not as another pass
        da_MTT = torch.baddbmm(nothing, dr_MTE, x_MTE.transpose(1, 2), beta=0, alpha=-1).tril_(-1)
        return da_MTT.to(a_MTT.dtype), dr_MTE


def _solved(a_MTT: Tensor, r_MTE: Tensor, transposed: bool) -> Tensor:
    r_MTE = r_MTE.contiguous()
    x_MTE = torch.empty_like(r_MTE)
    matrices, steps, columns = r_MTE.shape
    if not x_MTE.numel():
        return x_MTE
    # First entry, then strides from row to row and from column to column.
    of_a = (steps * steps - 1, -1, -steps) if transposed else (0, steps, 1)
    of_r = ((steps - 1) * columns, -columns) if transposed else (0, columns)
    parts = triton.cdiv(columns, COLUMNS)
    _solve_kernel[(matrices * parts,)](
        a_MTT, r_MTE, x_MTE, columns, parts, *of_a, *of_r,
        STEPS=steps, BLOCKS=triton.cdiv(steps, BLOCK), BLOCK=BLOCK, COLUMNS=COLUMNS, num_warps=WARPS,
    )  # fmt: skip
    return x_MTE


@triton.jit
def _solve_kernel(
    a_ptr, r_ptr, x_ptr, columns, parts, a_first, a_row, a_column, r_first, r_row,
    STEPS: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    matrix, part = program // parts, (program % parts).to(tl.int32)  # inside a matrix 32 bits are enough
    a_ptr += matrix * STEPS * STEPS + a_first
    offset = matrix * STEPS * columns + r_first
    r_ptr += offset
    x_ptr += offset
    column = part * COLUMNS + tl.arange(0, COLUMNS)
    x0 = _block(r_ptr, 0, column, columns, r_row, STEPS, BLOCK)
    x0 = _inside(a_ptr, 0, x0, a_row, a_column, STEPS, BLOCK)
    _store(x_ptr, 0, x0, column, columns, r_row, STEPS, BLOCK)
    if BLOCKS > 1:
        x1 = _block(r_ptr, 1, column, columns, r_row, STEPS, BLOCK)
        x1 = _less(x1, a_ptr, 1, 0, x0, a_row, a_column, STEPS, BLOCK)
        x1 = _inside(a_ptr, 1, x1, a_row, a_column, STEPS, BLOCK)
        _store(x_ptr, 1, x1, column, columns, r_row, STEPS, BLOCK)
    if BLOCKS > 2:
        x2 = _block(r_ptr, 2, column, columns, r_row, STEPS, BLOCK)
        x2 = _less(x2, a_ptr, 2, 0, x0, a_row, a_column, STEPS, BLOCK)
        x2 = _less(x2, a_ptr, 2, 1, x1, a_row, a_column, STEPS, BLOCK)
        x2 = _inside(a_ptr, 2, x2, a_row, a_column, STEPS, BLOCK)
        _store(x_ptr, 2, x2, column, columns, r_row, STEPS, BLOCK)
    if BLOCKS > 3:
        x3 = _block(r_ptr, 3, column, columns, r_row, STEPS, BLOCK)
        x3 = _less(x3, a_ptr, 3, 0, x0, a_row, a_column, STEPS, BLOCK)
        x3 = _less(x3, a_ptr, 3, 1, x1, a_row, a_column, STEPS, BLOCK)
        x3 = _less(x3, a_ptr, 3, 2, x2, a_row, a_column, STEPS, BLOCK)
        x3 = _inside(a_ptr, 3, x3, a_row, a_column, STEPS, BLOCK)
        _store(x_ptr, 3, x3, column, columns, r_row, STEPS, BLOCK)


@triton.jit
def _block(r_ptr, number: tl.constexpr, column, columns, r_row, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    row = number * BLOCK + tl.arange(0, BLOCK)
    inside = (row < STEPS)[:, None] & (column < columns)[None, :]
    return tl.load(r_ptr + row[:, None] * r_row + column[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _store(x_ptr, number: tl.constexpr, x, column, columns, r_row, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    row = number * BLOCK + tl.arange(0, BLOCK)
    inside = (row < STEPS)[:, None] & (column < columns)[None, :]
    tl.store(x_ptr + row[:, None] * r_row + column[None, :], x.to(x_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _less(r, a_ptr, number: tl.constexpr, earlier: tl.constexpr, x, a_row, a_column, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """r without what the solved block `earlier` contributes to the rows of block `number`."""
    row = number * BLOCK + tl.arange(0, BLOCK)
    column = earlier * BLOCK + tl.arange(0, BLOCK)  # an earlier block is full
    a = tl.load(a_ptr + row[:, None] * a_row + column[None, :] * a_column, mask=(row < STEPS)[:, None], other=0.0)
    return r - tl.dot(a.to(tl.float32), x, input_precision="ieee")


@triton.jit
def _inside(a_ptr, number: tl.constexpr, x, a_row, a_column, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Forward substitution among the rows of one block."""
    first: tl.constexpr = number * BLOCK
    rows: tl.constexpr = BLOCK if STEPS - first > BLOCK else STEPS - first
    row = tl.arange(0, BLOCK)
    for i in range(1, rows):
        known = row < i
        a = tl.load(a_ptr + (first + i) * a_row + (first + row) * a_column, mask=known, other=0.0).to(tl.float32)
        # By where, not by the zeros of a: rows from i on may hold an infinity, and 0 * inf is NaN.
        recalled = tl.sum(tl.where(known[:, None], a[:, None] * x, 0.0), axis=0)
        x = tl.where((row == i)[:, None], x - recalled[None, :], x)
    return x
