"""Kernels of `bias_gelu`. With z = x + bias[p],
Phi the standard normal distribution and phi its density:

    y = z Phi(z)        dx = dy (Phi(z) + z phi(z))        dbias = sum over rows dx

Only x is kept for the backward. It may be float32 or bfloat16; the bias and its gradient are
float32.

Shapes: P population, M rows of one member, N blocks of rows, H channels.
"""

# A kernel's parameters have Triton's types, which Python's checker cannot know.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton_rows import as_rows, rows_per_block, sum_blocks

# Elements of each tensor that four warps hold: 16 per thread, four vectors of 16 bytes. A row of
# 512 bytes (bfloat16) or more is enough for whole cache lines; wider rows are split, since nothing
# is summed along them.
TILE, MOST_COLUMNS, WARPS = 2048, 256, 4
ROOT_HALF = tl.constexpr(0.7071067811865476)
DENSITY_AT_0 = tl.constexpr(0.3989422804014327)


def bias_gelu(x_PMH: Tensor, bias_PH: Tensor) -> Tensor:
    return _BiasGelu.apply(x_PMH, bias_PH)


def _tile(channels: int) -> dict[str, int]:
    columns = min(MOST_COLUMNS, triton.next_power_of_2(channels))
    return {"ROWS": min(128, TILE // columns), "COLUMNS": columns, "num_warps": WARPS}


class _BiasGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        x_PMH = as_rows(x)
        population, rows, channels = x_PMH.shape
        y_PMH = torch.empty(x_PMH.shape, device=x.device, dtype=x.dtype)
        tile = _tile(channels)
        grid = (
            population * triton.cdiv(rows, tile["ROWS"]) * triton.cdiv(channels, tile["COLUMNS"]),
        )
        _forward[grid](x_PMH, bias.contiguous(), y_PMH, rows, channels, *x_PMH.stride()[:2], **tile)
        ctx.save_for_backward(x_PMH, bias)
        return y_PMH

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x_PMH, bias = ctx.saved_tensors
        population, rows, channels = x_PMH.shape
        dy_PMH = as_rows(grads[0])
        tile = _tile(channels)
        block = rows_per_block(rows, tile["ROWS"])
        blocks = triton.cdiv(rows, block)
        dx_PMH = torch.empty(x_PMH.shape, device=bias.device, dtype=x_PMH.dtype)
        shares_PNH = torch.empty(
            population, blocks, channels, device=bias.device, dtype=torch.float32
        )
        _backward[(population * blocks * triton.cdiv(channels, tile["COLUMNS"]),)](
            x_PMH, bias.contiguous(), dy_PMH, dx_PMH, shares_PNH,
            rows, block, channels, *x_PMH.stride()[:2], *dy_PMH.stride()[:2], **tile,
        )  # fmt: skip
        return dx_PMH, sum_blocks(shares_PNH)


@triton.jit
def _forward(
    x_ptr,
    bias_ptr,
    y_ptr,
    rows,
    channels,
    x_member,
    x_row,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    parts, tiles = tl.cdiv(channels, COLUMNS), tl.cdiv(rows, ROWS)
    index = tl.program_id(0) // parts
    column = (tl.program_id(0) % parts) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    member = (index // tiles).to(tl.int64)
    row = ((index % tiles) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    valid = column < channels
    inside = (row < rows) & valid
    z = tl.load(x_ptr + member * x_member + row * x_row + column, mask=inside, other=0.0).to(
        tl.float32
    )
    z += tl.load(bias_ptr + member * channels + column, mask=valid, other=0.0)
    y = z * (0.5 + 0.5 * tl.erf(z * ROOT_HALF))
    tl.store(
        y_ptr + (member * rows + row) * channels + column, y.to(y_ptr.dtype.element_ty), mask=inside
    )


@triton.jit
def _backward(
    x_ptr, bias_ptr, dy_ptr, dx_ptr, shares_ptr,
    rows, block, channels, x_member, x_row, dy_member, dy_row,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Walk through one block of a member's rows, for some of the channels."""
    parts, blocks = tl.cdiv(channels, COLUMNS), tl.cdiv(rows, block)
    index = tl.program_id(0) // parts
    channel = (tl.program_id(0) % parts) * COLUMNS + tl.arange(0, COLUMNS)
    column = channel[None, :]
    member = (index // blocks).to(tl.int64)
    first = (index % blocks) * block
    valid = column < channels
    bias = tl.load(bias_ptr + member * channels + column, mask=valid, other=0.0)
    total = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for start in range(first, min(first + block, rows), ROWS):
        row = (start + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (row < rows) & valid
        z = (
            tl.load(x_ptr + member * x_member + row * x_row + column, mask=inside, other=0.0).to(
                tl.float32
            )
            + bias
        )
        dy = tl.load(
            dy_ptr + member * dy_member + row * dy_row + column, mask=inside, other=0.0
        ).to(tl.float32)
        dx = dy * (0.5 + 0.5 * tl.erf(z * ROOT_HALF) + z * DENSITY_AT_0 * tl.exp(-0.5 * z * z))
        total += dx
        tl.store(
            dx_ptr + (member * rows + row) * channels + column,
            dx.to(dx_ptr.dtype.element_ty),
            mask=inside,
        )
    tl.store(
        shares_ptr + index.to(tl.int64) * channels + channel,
        tl.sum(total, axis=0),
        mask=channel < channels,
    )
