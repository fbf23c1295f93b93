"""Kernels of `read_out`: everything between the scores and the last projection
in one pass over memory each way.

With a = h / divisor, u = a - mean(a), r = (mean(u^2) + eps)^(-1/2), n = u r, y = n scale + skip c,
s = SiLU(z) and the gradient dout of out = y s:

    dy = dout s      dz = dout y SiLU'(z)      dc = dy skip
    dskip = sum over rows dy c       dscale = sum over rows dy n
    g = dy scale     da = r (g - n mean(g n) - mean(g))          dh = da / divisor
    ddivisor = -sum(da a) / divisor = -sum(g n) eps r^2 / divisor

Apart from eps, a norm does not depend on the divisor of its input, so sum(da a) would consist
mostly of rounding errors. Only the inputs are kept for the backward. h, c and z may be float32 or
bfloat16, the output is as c; scale, skip, the divisor and their gradients are float32. eps must be
positive.

Shapes: P population, M rows of one member, N blocks of rows, H heads, D channels of a head, E = H D
channels.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton_rows import as_rows, rows_per_block, sum_blocks

# Elements of each tensor that four warps hold: 16 per thread. The backward has about eight such
# tiles in registers.
TILE = 2048
MOST_ROWS = 64  # of a tile, where heads are narrow


def read_out(
    h: Tensor, divisor: Tensor | None, c: Tensor, z: Tensor, scale: Tensor, skip: Tensor, eps: float
) -> Tensor:
    return _ReadOut.apply(h, divisor, c, z, scale, skip, eps)


class _ReadOut(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        divisor: Tensor | None,
        c: Tensor,
        z: Tensor,
        scale: Tensor,
        skip: Tensor,
        eps: float,
    ) -> Tensor:
        heads, width = h.shape[-2:]
        h_PME, c_PME, z_PME = as_rows(h.flatten(-2)), as_rows(c), as_rows(z)
        scale, skip = scale.contiguous(), skip.contiguous()
        divisor_PMH = None if divisor is None else divisor.float().contiguous()
        out = torch.empty(c.shape, dtype=c.dtype, device=c.device)
        population, rows, _ = h_PME.shape
        tile = _tile(width)
        _forward[(population * triton.cdiv(rows, tile["ROWS"]) * heads,)](
            h_PME, divisor_PMH, c_PME, z_PME, scale, skip, out, rows, heads, *_strides(h_PME,
            c_PME, z_PME), eps,
            WIDTH=width, **tile,
        )  # fmt: skip
        ctx.save_for_backward(h_PME, divisor_PMH, c_PME, z_PME, scale, skip)
        ctx.eps, ctx.shapes = eps, (h.shape, c.shape)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        h_PME, divisor_PMH, c_PME, z_PME, scale, skip = ctx.saved_tensors
        (h_shape, c_shape), dout_PME = ctx.shapes, as_rows(grads[0])
        population, rows, channels = h_PME.shape
        heads, width = h_shape[-2:]
        tile = _tile(width)
        block = rows_per_block(rows, tile["ROWS"])
        blocks = triton.cdiv(rows, block)
        dh, dc, dz = (
            torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (h_PME, c_PME, z_PME)
        )
        ddivisor = None if divisor_PMH is None else torch.empty_like(divisor_PMH)
        shares_2PNE = torch.empty(
            2, population, blocks, channels, dtype=torch.float32, device=h_PME.device
        )
        _backward[(population * blocks * heads,)](
            h_PME, divisor_PMH, c_PME, z_PME, scale, skip, dout_PME, dh, ddivisor, dc, dz,
            *shares_2PNE,
            rows, block, heads, *_strides(h_PME, c_PME, z_PME, dout_PME), ctx.eps, WIDTH=width,
            **tile,
        )  # fmt: skip
        dscale, dskip = sum_blocks(shares_2PNE.flatten(0, 1)).view(2, population, channels)
        return dh.view(h_shape), ddivisor, dc.view(c_shape), dz.view(c_shape), dscale, dskip, None


def _tile(width: int) -> dict[str, int]:
    """Return the size of a tile: a whole head per program, and several rows if heads are narrow;
    wide heads have more warps.
    """
    columns = triton.next_power_of_2(width)
    return {
        "ROWS": min(MOST_ROWS, max(1, TILE // columns)),
        "COLUMNS": columns,
        "num_warps": min(16, max(4, columns // 512)),
    }


def _strides(*tensors: Tensor) -> list[int]:
    return [stride for tensor in tensors for stride in tensor.stride()[:2]]


@triton.jit
def _load(pointer, member_stride, row_stride, member, row, channel, inside):
    return tl.load(
        pointer + member * member_stride + row * row_stride + channel, mask=inside, other=0.0
    ).to(tl.float32)


@triton.jit
def _normalised(a, inside, eps, WIDTH: tl.constexpr):
    """Return n and r of rows. The rows must be zero beyond the width, and n is so too."""
    u = tl.where(inside, a - (tl.sum(a, axis=1) / WIDTH)[:, None], 0.0)
    r = tl.rsqrt(tl.sum(u * u, axis=1) / WIDTH + eps)
    return u * r[:, None], r


@triton.jit
def _forward(
    h_ptr, divisor_ptr, c_ptr, z_ptr, scale_ptr, skip_ptr, out_ptr,
    rows, heads, h_member, h_row, c_member, c_row, z_member, z_row, eps,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(rows, ROWS)
    head, member = tl.program_id(0) % heads, (tl.program_id(0) // heads // tiles).to(tl.int64)
    row = ((tl.program_id(0) // heads % tiles) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    channel, valid = head * WIDTH + column, column < WIDTH
    inside = (row < rows) & valid
    a = _load(h_ptr, h_member, h_row, member, row, channel, inside)
    if divisor_ptr is not None:
        a /= tl.load(divisor_ptr + (member * rows + row) * heads + head, mask=row < rows, other=1.0)
    n, _ = _normalised(a, inside, eps, WIDTH)
    scale = tl.load(scale_ptr + member * heads * WIDTH + channel, mask=valid, other=0.0)
    skip = tl.load(skip_ptr + member * heads * WIDTH + channel, mask=valid, other=0.0)
    c = _load(c_ptr, c_member, c_row, member, row, channel, inside)
    z = _load(z_ptr, z_member, z_row, member, row, channel, inside)
    out = (n * scale + skip * c) * z * tl.sigmoid(z)
    tl.store(
        out_ptr + (member * rows + row) * heads * WIDTH + channel,
        out.to(out_ptr.dtype.element_ty),
        mask=inside,
    )


@triton.jit
def _backward(
    h_ptr, divisor_ptr, c_ptr, z_ptr, scale_ptr, skip_ptr, dout_ptr, dh_ptr, ddivisor_ptr, dc_ptr,
    dz_ptr,
    dscale_ptr, dskip_ptr, rows, block, heads, h_member, h_row, c_member, c_row, z_member, z_row,
    dout_member, dout_row, eps,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Walk through a block of a member's rows, at one head, and sum dscale and dskip over it."""
    blocks = tl.cdiv(rows, block)
    head, share = tl.program_id(0) % heads, (tl.program_id(0) // heads).to(tl.int64)
    member, first = share // blocks, (tl.program_id(0) // heads % blocks) * block
    column = tl.arange(0, COLUMNS)[None, :]
    channel, valid = head * WIDTH + column, column < WIDTH
    scale = tl.load(scale_ptr + member * heads * WIDTH + channel, mask=valid, other=0.0)
    skip = tl.load(skip_ptr + member * heads * WIDTH + channel, mask=valid, other=0.0)
    dscale = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    dskip = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for start in range(first, tl.minimum(first + block, rows), ROWS):
        row = (start + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (row < rows) & valid
        a = _load(h_ptr, h_member, h_row, member, row, channel, inside)
        c = _load(c_ptr, c_member, c_row, member, row, channel, inside)
        z = _load(z_ptr, z_member, z_row, member, row, channel, inside)
        dout = _load(dout_ptr, dout_member, dout_row, member, row, channel, inside)
        divisor_at = (member * rows + row) * heads + head
        divisor = tl.full([ROWS, 1], 1.0, dtype=tl.float32)
        if divisor_ptr is not None:
            divisor = tl.load(divisor_ptr + divisor_at, mask=row < rows, other=1.0)
        a /= divisor
        n, r = _normalised(a, inside, eps, WIDTH)
        sigma = tl.sigmoid(z)
        dy = dout * z * sigma
        written = (member * rows + row) * heads * WIDTH + channel
        dz = dout * (n * scale + skip * c) * sigma * (1 + z * (1 - sigma))
        tl.store(dz_ptr + written, dz.to(dz_ptr.dtype.element_ty), mask=inside)
        tl.store(dc_ptr + written, (dy * skip).to(dc_ptr.dtype.element_ty), mask=inside)
        dskip += dy * c
        dscale += dy * n
        g = dy * scale
        along = tl.sum(g * n, axis=1)
        da = (g - n * (along / WIDTH)[:, None] - (tl.sum(g, axis=1) / WIDTH)[:, None]) * r[:, None]
        tl.store(dh_ptr + written, (da / divisor).to(dh_ptr.dtype.element_ty), mask=inside)
        if ddivisor_ptr is not None:
            tl.store(
                ddivisor_ptr + divisor_at,
                -(along * r * r)[:, None] * eps / divisor,
                mask=row < rows,
            )
    shares = (share * heads + head) * WIDTH + tl.arange(0, COLUMNS)
    real = tl.arange(0, COLUMNS) < WIDTH
    tl.store(dscale_ptr + shares, tl.sum(dscale, axis=0), mask=real)
    tl.store(dskip_ptr + shares, tl.sum(dskip, axis=0), mask=real)
