"""Kernels of `norm` and `add_norm`: a row is read once, normalised in registers in float32,
and written once.

With s = x, or x + branch + shift, u = s (rms) or s - mean(s) (layer), r = (mean(u^2) + eps)^(-1/2)
and h = u r:

    y = h w + b        dw = sum over rows dy h        db = sum over rows dy
    ds = r (g - h mean(g h) - [layer] mean(g)) + (the gradient of s itself)        g = dy w
    dx = dbranch = ds        dshift = sum over rows ds

Only s is kept for the backward, which computes r and h again: its rows are in registers anyway. x
and branch may be float32 or bfloat16; weights and their gradients are float32. eps must be
positive.

Shapes: P population, R rows of one member, N blocks of rows, D width; `...` is any number of axes
in between.
"""

# A kernel's parameters have Triton's types, which Python's checker cannot know.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.norm.plain import NormKind
from recollect.ops.triton_rows import as_rows, rows_per_block, sum_blocks

# Elements of each tensor that four warps hold: 16 per thread, four vectors of 16 bytes. The
# backward keeps about seven such tiles in registers (inputs, h, g and the two sums), so that four
# programs still fit on a multiprocessor.
TILE = 2048
MOST_ROWS = 128  # of a tile, where rows are very short


def norm(
    x: Tensor, weight_PD: Tensor, bias_PD: Tensor | None, eps: float, kind: NormKind
) -> Tensor:
    return keep_norm(x, weight_PD, bias_PD, eps, kind)[1]


def keep_norm(
    x: Tensor, weight_PD: Tensor, bias_PD: Tensor | None, eps: float, kind: NormKind
) -> tuple[Tensor, Tensor]:
    return _Norm.apply(x, None, None, weight_PD, bias_PD, eps, kind)


def add_norm(
    x: Tensor,
    branch: Tensor,
    shift_PD: Tensor | None,
    weight_PD: Tensor,
    bias_PD: Tensor | None,
    eps: float,
    kind: NormKind,
) -> tuple[Tensor, Tensor]:
    # The kernel reads as many elements of the branch as x has, so a branch of another shape is
    # expanded, or refused, here.
    return _Norm.apply(x, branch.expand_as(x), shift_PD, weight_PD, bias_PD, eps, kind)


def _tile(width: int) -> dict[str, int]:
    """Return the size of a tile: a whole row per program, or several if rows are short."""
    columns = triton.next_power_of_2(width)
    # Beyond 2048 channels more warps share the row, so that a thread still holds 16 elements of it.
    return {
        "ROWS": min(MOST_ROWS, max(1, TILE // columns)),
        "COLUMNS": columns,
        "num_warps": min(16, max(4, columns // 512)),
    }


def _strides(x_PRD: Tensor | None) -> tuple[int, int]:
    return (0, 0) if x_PRD is None else (x_PRD.stride(0), x_PRD.stride(1))


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        branch: Tensor | None,
        shift: Tensor | None,
        weight: Tensor,
        bias: Tensor | None,
        eps: float,
        kind: NormKind,
    ) -> tuple[Tensor, Tensor]:
        x_PRD = as_rows(x)
        population, rows, width = x_PRD.shape
        branch_PRD = None if branch is None else as_rows(branch)
        dtype = x.dtype if branch is None else torch.promote_types(x.dtype, branch.dtype)
        total_PRD = (
            x_PRD if branch is None else torch.empty(x_PRD.shape, device=x.device, dtype=dtype)
        )
        # Under autocast the next product would cast its input, so it is written in that dtype here.
        products = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else dtype
        y_PRD = torch.empty(x_PRD.shape, device=x.device, dtype=products)
        tile = _tile(width)
        _forward[(population * triton.cdiv(rows, tile["ROWS"]),)](
            x_PRD, branch_PRD, None if shift is None else shift.contiguous(),
            weight.contiguous(), None if bias is None else bias.contiguous(), total_PRD, y_PRD,
            rows, *_strides(x_PRD), *_strides(branch_PRD), eps,
            WIDTH=width, CENTRED=kind == "layer", **tile,
        )  # fmt: skip
        ctx.save_for_backward(total_PRD, weight)
        ctx.set_materialize_grads(False)
        ctx.options = (eps, kind, bias is not None, shift is not None)
        ctx.kinds = (x.dtype, None if branch is None else branch.dtype)
        return x if branch is None else total_PRD.view(x.shape), y_PRD.view(x.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        x_dtype, branch_dtype = ctx.kinds
        dtotal, dy = grads  # the sum has a gradient if something else uses it
        if dy is None:
            dx = None if dtotal is None else dtotal.to(x_dtype)
            dbranch = None if dtotal is None or branch_dtype is None else dtotal.to(branch_dtype)
            dshift = (
                as_rows(dtotal).float().sum(1) if dtotal is not None and ctx.options[-1] else None
            )
            return dx, dbranch, dshift, None, None, None, None
        ds, rounded, sums = _gradients(ctx, dy, dtotal)
        dbranch = None if branch_dtype is None else ds if rounded is None else rounded
        return (
            ds.to(x_dtype),
            dbranch,
            sums.get("shift"),
            sums["weight"],
            sums.get("bias"),
            None,
            None,
        )


def _gradients(
    ctx: Any, dy: Tensor, dtotal: Tensor | None
) -> tuple[Tensor, Tensor | None, dict[str, Tensor]]:
    """Return ds, ds in the branch's dtype if it differs, and those of dw, db, dshift that exist."""
    total_PRD, weight = ctx.saved_tensors
    branch_dtype = ctx.kinds[1]
    eps, kind, biased, shifted = ctx.options
    population, rows, width = total_PRD.shape
    dy_PRD = as_rows(dy)
    dtotal_PRD = None if dtotal is None else as_rows(dtotal)
    tile = _tile(width)
    block = rows_per_block(rows, tile["ROWS"])
    blocks = triton.cdiv(rows, block)
    ds_PRD = torch.empty(total_PRD.shape, device=dy.device, dtype=total_PRD.dtype)
    other = branch_dtype is not None and branch_dtype != total_PRD.dtype
    rounded_PRD = torch.empty_like(ds_PRD, dtype=branch_dtype) if other else None
    sums = ["weight", *(["bias"] if biased else []), *(["shift"] if shifted else [])]
    shares_SPND = torch.empty(
        len(sums), population, blocks, width, device=dy.device, dtype=torch.float32
    )
    shares = dict(zip(sums, shares_SPND, strict=True))
    _backward[(population * blocks,)](
        total_PRD, dy_PRD, dtotal_PRD, weight.contiguous(), ds_PRD, rounded_PRD,
        shares["weight"], shares.get("bias"), shares.get("shift"),
        rows, block, *_strides(total_PRD), *_strides(dy_PRD), *_strides(dtotal_PRD), eps,
        WIDTH=width, CENTRED=kind == "layer", **tile,
    )  # fmt: skip
    sums_SPD = sum_blocks(shares_SPND.flatten(0, 1)).view(len(sums), population, width)
    rounded = None if rounded_PRD is None else rounded_PRD.view(dy.shape)
    return ds_PRD.view(dy.shape), rounded, dict(zip(sums, sums_SPD, strict=True))


@triton.jit
def _normalised(s, valid, eps, WIDTH: tl.constexpr, CENTRED: tl.constexpr):
    """Return h and r of rows s. s must be zero beyond the width, and h is so too."""
    if CENTRED:
        s = tl.where(valid, s - (tl.sum(s, axis=1) / WIDTH)[:, None], 0.0)
    r = tl.rsqrt(tl.sum(s * s, axis=1) / WIDTH + eps)
    return s * r[:, None], r


@triton.jit
def _forward(
    x_ptr, branch_ptr, shift_ptr, weight_ptr, bias_ptr, total_ptr, y_ptr,
    rows, x_member, x_row, branch_member, branch_row, eps,
    WIDTH: tl.constexpr, CENTRED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(rows, ROWS)
    member = (tl.program_id(0) // tiles).to(tl.int64)
    row = ((tl.program_id(0) % tiles) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    valid = column < WIDTH
    inside = (row < rows) & valid
    s = tl.load(x_ptr + member * x_member + row * x_row + column, mask=inside, other=0.0).to(
        tl.float32
    )
    written = (member * rows + row) * WIDTH + column
    if branch_ptr is not None:
        branch = tl.load(
            branch_ptr + member * branch_member + row * branch_row + column, mask=inside, other=0.0
        )
        s += branch.to(tl.float32)
        if shift_ptr is not None:
            s += tl.load(shift_ptr + member * WIDTH + column, mask=valid, other=0.0)
        # The sum is normalised as it is stored, so that the backward normalises the same numbers.
        total = s.to(total_ptr.dtype.element_ty)
        tl.store(total_ptr + written, total, mask=inside)
        s = total.to(tl.float32)
    h, _ = _normalised(tl.where(inside, s, 0.0), valid, eps, WIDTH, CENTRED)
    y = h * tl.load(weight_ptr + member * WIDTH + column, mask=valid, other=0.0)
    if bias_ptr is not None:
        y += tl.load(bias_ptr + member * WIDTH + column, mask=valid, other=0.0)
    tl.store(y_ptr + written, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _backward(
    total_ptr, dy_ptr, dtotal_ptr, weight_ptr, ds_ptr, rounded_ptr, dweight_ptr, dbias_ptr,
    dshift_ptr,
    rows, block, total_member, total_row, dy_member, dy_row, dtotal_member, dtotal_row, eps,
    WIDTH: tl.constexpr, CENTRED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Walk through a block of a member's rows and sum dw, db and dshift over it, by element."""
    blocks = tl.cdiv(rows, block)
    share = tl.program_id(0).to(tl.int64)
    member = share // blocks
    first = (tl.program_id(0) % blocks) * block
    column = tl.arange(0, COLUMNS)[None, :]
    valid = column < WIDTH
    weight = tl.load(weight_ptr + member * WIDTH + column, mask=valid, other=0.0)
    dweight = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    dbias = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    dshift = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for start in range(first, min(first + block, rows), ROWS):
        row = (start + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (row < rows) & valid
        s = tl.load(
            total_ptr + member * total_member + row * total_row + column, mask=inside, other=0.0
        ).to(tl.float32)
        dy = tl.load(
            dy_ptr + member * dy_member + row * dy_row + column, mask=inside, other=0.0
        ).to(tl.float32)
        h, r = _normalised(s, valid, eps, WIDTH, CENTRED)
        dweight += dy * h
        if dbias_ptr is not None:
            dbias += dy
        g = dy * weight
        ds = g - h * (tl.sum(g * h, axis=1) / WIDTH)[:, None]
        if CENTRED:
            ds -= (tl.sum(g, axis=1) / WIDTH)[:, None]
        ds *= r[:, None]
        if dtotal_ptr is not None:
            dtotal = tl.load(
                dtotal_ptr + member * dtotal_member + row * dtotal_row + column,
                mask=inside,
                other=0.0,
            )
            ds += dtotal.to(tl.float32)
        if dshift_ptr is not None:
            dshift += tl.where(inside, ds, 0.0)
        written = (member * rows + row) * WIDTH + column
        tl.store(ds_ptr + written, ds.to(ds_ptr.dtype.element_ty), mask=inside)
        if rounded_ptr is not None:
            tl.store(rounded_ptr + written, ds.to(rounded_ptr.dtype.element_ty), mask=inside)
    shares = share * WIDTH + tl.arange(0, COLUMNS)
    real = tl.arange(0, COLUMNS) < WIDTH
    tl.store(dweight_ptr + shares, tl.sum(dweight, axis=0), mask=real)
    if dbias_ptr is not None:
        tl.store(dbias_ptr + shares, tl.sum(dbias, axis=0), mask=real)
    if dshift_ptr is not None:
        tl.store(dshift_ptr + shares, tl.sum(dshift, axis=0), mask=real)
