"""Kernels of `short_conv`. With e_k = K - 1 - k - ahead, how many positions tap k looks back, and z the convolution:

    z_t = bias + sum_k weight_k x_{t - e_k}             y = z, or z sigmoid(z)
    dz = dy, or dy sigmoid(z) (1 + z (1 - sigmoid(z)))  dx_t = sum_k weight_k dz_{t + e_k}
    dweight_k = sum over rows x_t dz_{t + e_k}          dbias = sum over rows dz_t

Only x is kept for the backward, which computes z again. x is float32 or bfloat16 and may be part of a wider tensor, as long
as its channels are next to each other; weight, bias and their gradients are float32.

Shapes: P population, B batch, L length, M = B L rows of one member, N blocks of rows, D channels, K taps.
"""

# A kernel's parameters have Triton's types, which Python's checker cannot know.
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, misc"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.rows_triton import rows_per_block, sum_blocks

# Channels of a tile: rows of 256 bytes (float32), whole cache lines even in bfloat16.
MOST_COLUMNS = 64
# Forward: 16 elements for each thread of four warps. Positions shared by several taps come from the first-level cache.
TILE, WARPS = 2048, 4
# Backward: one warp, so that sums over rows need no barrier; each of its threads holds 8 elements of 2 K - 1 inputs and K
# gradients (163 registers with 4 taps). With so many taps that their sums alone would fill its registers, four warps.
BACKWARD_TILE, BACKWARD_WARPS = 256, 1
# Rows that one program sums over: what it writes for them, K + 1 rows, is then 4 % of what it reads.
BLOCK = 128
MOST_UNROLLED = 8  # the backward's unrolled code grows with K^2


def short_conv(x_PBLD: Tensor, weight_PKD: Tensor, bias_PD: Tensor | None, ahead: int, activation: str | None) -> Tensor:
    """`ahead` must be from 0 to K - 1: some tap then sees the present, from which the backward sums dbias."""
    return _ShortConv.apply(x_PBLD, weight_PKD, bias_PD, ahead, activation)


class _ShortConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, ahead: int, activation: str | None) -> Tensor:
        x = _dense_channels(x)
        population, batch, length, channels = x.shape
        weight, bias = weight.contiguous(), None if bias is None else bias.contiguous()
        ctx.constants = {
            "TAPS": weight.shape[1],
            "AHEAD": ahead,
            "BIAS": bias is not None,
            "SILU": activation == "silu",
            "UNROLL": weight.shape[1] <= MOST_UNROLLED,
        }
        y_PBLD = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        tile = _tile(channels, TILE)
        grid = (population * triton.cdiv(batch * length, tile["ROWS"]) * triton.cdiv(channels, tile["COLUMNS"]),)
        _forward[grid](
            x, weight, weight if bias is None else bias, y_PBLD,
            batch * length, length, channels, *x.stride()[:3], **ctx.constants, **tile, num_warps=WARPS,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, bias)
        return y_PBLD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        dy = _dense_channels(grads[0])
        population, batch, length, channels = x.shape
        rows, sums = batch * length, weight.shape[1] + (bias is not None)
        block = rows_per_block(rows, BLOCK)
        blocks = triton.cdiv(rows, block)
        dx_PBLD = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        shares_PNKD = torch.empty(population, blocks, sums, channels, device=x.device, dtype=torch.float32)
        tile = _tile(channels, BACKWARD_TILE)
        warps = BACKWARD_WARPS if ctx.constants["UNROLL"] else WARPS
        _backward[(population * blocks * triton.cdiv(channels, tile["COLUMNS"]),)](
            x, weight, weight if bias is None else bias, dy, dx_PBLD, shares_PNKD,
            rows, block, length, channels, *x.stride()[:3], *dy.stride()[:3],
            **ctx.constants, **tile, SUMS=sums, SUM_ROWS=triton.next_power_of_2(sums), num_warps=warps,
        )  # fmt: skip
        sums_PKD = sum_blocks(shares_PNKD.flatten(2)).view(population, sums, channels)
        dweight_PKD = sums_PKD[:, : weight.shape[1]].contiguous()
        return dx_PBLD, dweight_PKD, None if bias is None else sums_PKD[:, -1].contiguous(), None, None


def _dense_channels(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _tile(channels: int, elements: int) -> dict[str, int]:
    columns = min(MOST_COLUMNS, triton.next_power_of_2(channels))
    return {"ROWS": min(128, elements // columns), "COLUMNS": columns}


@triton.jit
def _forward(
    x_ptr, weight_ptr, bias_ptr, y_ptr, rows, length, channels, x_member, x_batch, x_time,
    TAPS: tl.constexpr, AHEAD: tl.constexpr, BIAS: tl.constexpr, SILU: tl.constexpr, UNROLL: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    parts, tiles = tl.cdiv(channels, COLUMNS), tl.cdiv(rows, ROWS)
    index = tl.program_id(0) // parts
    column = (tl.program_id(0) % parts) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    member = (index // tiles).to(tl.int64)
    row = (index % tiles) * ROWS + tl.arange(0, ROWS)[:, None]
    time = row % length
    valid = column < channels
    inside = (row < rows) & valid
    x_ptr += member * x_member + (row // length).to(tl.int64) * x_batch + time.to(tl.int64) * x_time + column
    weight_ptr += member * TAPS * channels + column
    bias_ptr += member * channels + column
    z = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    z = _convolved(
        z, x_ptr, weight_ptr, bias_ptr, inside, valid, time, length, x_time, channels, AHEAD - (TAPS - 1), TAPS, BIAS, UNROLL
    )
    y = z * tl.sigmoid(z) if SILU else z
    tl.store(y_ptr + (member * rows + row) * channels + column, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _convolved(
    z, x_tile, weight_ptr, bias_ptr, inside, valid, time, length, x_time, channels, first,
    TAPS: tl.constexpr, BIAS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """z plus bias and, for every tap, its weight times x: tap j looks `first` + j positions ahead of `time`."""
    if BIAS:
        z += tl.load(bias_ptr, mask=valid, other=0.0)
    if UNROLL:
        for j in tl.static_range(TAPS):
            z += _seen(x_tile, weight_ptr + j * channels, inside, valid, time, length, x_time, first + j)
    else:
        for j in range(TAPS):
            z += _seen(x_tile, weight_ptr + j * channels, inside, valid, time, length, x_time, first + j)
    return z


@triton.jit
def _seen(x_tile, weight_ptr, inside, valid, time, length, x_time, offset):
    there = inside & (time + offset >= 0) & (time + offset < length)
    x = tl.load(x_tile + offset * x_time, mask=there, other=0.0).to(tl.float32)
    return x * tl.load(weight_ptr, mask=valid, other=0.0)


@triton.jit
def _backward(
    x_ptr, weight_ptr, bias_ptr, dy_ptr, dx_ptr, shares_ptr,
    rows, block, length, channels, x_member, x_batch, x_time, dy_member, dy_batch, dy_time,
    TAPS: tl.constexpr, AHEAD: tl.constexpr, BIAS: tl.constexpr, SILU: tl.constexpr, UNROLL: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SUMS: tl.constexpr, SUM_ROWS: tl.constexpr,
):  # fmt: skip
    parts, blocks = tl.cdiv(channels, COLUMNS), tl.cdiv(rows, block)
    index = tl.program_id(0) // parts
    column = (tl.program_id(0) % parts) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    member = (index // blocks).to(tl.int64)
    first = (index % blocks) * block
    valid = column < channels
    x_ptr += member * x_member + column
    dy_ptr += member * dy_member + column
    dx_ptr += member * rows * channels + column
    weight_ptr += member * TAPS * channels + column
    bias_ptr += member * channels + column
    # One row for each tap, and one for the bias.
    sum_row = tl.arange(0, SUM_ROWS)[:, None]
    sums = tl.zeros([SUM_ROWS, COLUMNS], dtype=tl.float32)
    for start in range(first, min(first + block, rows), ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        time = row % length
        batch = (row // length).to(tl.int64)
        inside = (row < rows) & valid
        x_tile = x_ptr + batch * x_batch + time.to(tl.int64) * x_time
        dy_tile = dy_ptr + batch * dy_batch + time.to(tl.int64) * dy_time
        x = tl.load(x_tile, mask=inside, other=0.0).to(tl.float32)
        dx = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
        if UNROLL:
            for k in tl.static_range(TAPS):
                dx, sums = _add_tap(
                    dx, sums, sum_row, x, x_tile, dy_tile, weight_ptr, bias_ptr, inside, valid, time, length,
                    x_time, dy_time, channels, k, TAPS, AHEAD, BIAS, SILU, UNROLL,
                )  # fmt: skip
        else:
            for k in range(TAPS):
                dx, sums = _add_tap(
                    dx, sums, sum_row, x, x_tile, dy_tile, weight_ptr, bias_ptr, inside, valid, time, length,
                    x_time, dy_time, channels, k, TAPS, AHEAD, BIAS, SILU, UNROLL,
                )  # fmt: skip
        tl.store(dx_ptr + row.to(tl.int64) * channels, dx.to(dx_ptr.dtype.element_ty), mask=inside)
    shares_ptr += (member * blocks + index % blocks) * SUMS * channels
    tl.store(shares_ptr + sum_row * channels + column, sums, mask=(sum_row < SUMS) & valid)


@triton.jit
def _add_tap(
    dx, sums, sum_row, x, x_tile, dy_tile, weight_ptr, bias_ptr, inside, valid, time, length,
    x_time, dy_time, channels, k,
    TAPS: tl.constexpr, AHEAD: tl.constexpr, BIAS: tl.constexpr, SILU: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """dx and the sums with what tap k adds to them, all by way of the one output to which it takes x_t."""
    delay = TAPS - 1 - AHEAD - k
    reached = inside & (time + delay >= 0) & (time + delay < length)
    dz = tl.load(dy_tile + delay * dy_time, mask=reached, other=0.0).to(tl.float32)
    if SILU:
        # Seen from t, the taps of that output look at t - k, ..., t - k + K - 1. The same positions come up for other k, and
        # the compiler loads each of the 2 K - 1 once.
        z = tl.zeros_like(dx)
        z = _convolved(z, x_tile, weight_ptr, bias_ptr, inside, valid, time, length, x_time, channels, -k, TAPS, BIAS, UNROLL)
        share = tl.sigmoid(z)
        # By choice, not as a product with 0: without such an output z is a sum of some x, and may be infinite.
        dz = tl.where(reached, dz * share * (1 + z * (1 - share)), 0.0)
    dx += dz * tl.load(weight_ptr + k * channels, mask=valid, other=0.0)
    sums += tl.where(sum_row == k, tl.sum(dz * x, axis=0)[None, :], 0.0)
    if BIAS and delay == 0:
        sums += tl.where(sum_row == TAPS, tl.sum(dz, axis=0)[None, :], 0.0)
    return dx, sums
