"""Kernels of `short_conv`. With e_k = K - 1 - k - ahead, how many positions tap k looks back,
and z the convolution:

    z_t = bias + sum_k weight_k x_{t - e_k}             y = z, or z sigmoid(z)
    dz = dy, or dy sigmoid(z) (1 + z (1 - sigmoid(z)))  dx_t = sum_k weight_k dz_{t + e_k}
    dweight_k = sum over rows x_t dz_{t + e_k}          dbias = sum over rows dz_t

Only x is kept for the backward, which computes z again. x is float32 or bfloat16 and may be part of
a wider tensor, as long as its channels are next to each other; weight, bias and their gradients are
float32.

Shapes: P population, B batch, L length, M = B L rows of one member, N blocks of rows, D channels, K
taps.
"""

# A kernel's parameters have Triton's types, which Python's checker cannot know.
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, misc, assignment"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton_rows import rows_per_block, sum_blocks

# Channels of a tile: rows of 256 bytes (float32), whole cache lines even in bfloat16.
MOST_COLUMNS = 64
# Forward: 16 elements for each thread of four warps. Positions shared by several taps come from the
# first-level cache.
TILE, WARPS = 2048, 4
# Backward: one warp with two channels per thread walks along time, STRIDE positions at once. It has
# G + 2 (K - 1) inputs and G + K - 1 gradients in registers, so that every z and its sigmoid is
# computed once (and K - 1 of G + K - 1 twice).
STRIDE, WALK_COLUMNS = 16, 64
BACKWARD_TILE = 256  # if there are too many taps for that: a tile of rows, tap by tap
# Rows that one program sums over: the K + 1 rows that it writes for them are then 4 % of what it
# reads.
BLOCK = 128
MOST_UNROLLED = 8  # the walk's unrolled code grows with K


def short_conv(
    x_PBLD: Tensor, weight_PKD: Tensor, bias_PD: Tensor | None, ahead: int, activation: str | None
) -> Tensor:
    """Apply the convolution. `ahead` must be from 0 to K - 1: some tap then sees the present, from
    which the backward sums dbias.
    """
    return _ShortConv.apply(x_PBLD, weight_PKD, bias_PD, ahead, activation)


class _ShortConv(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, ahead: int, activation: str | None
    ) -> Tensor:
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
        grid = (
            population
            * triton.cdiv(batch * length, tile["ROWS"])
            * triton.cdiv(channels, tile["COLUMNS"]),
        )
        _forward[grid](
            x, weight, weight if bias is None else bias, y_PBLD,
            batch * length, length, channels, *x.stride()[:3], **ctx.constants, **tile,
            num_warps=WARPS,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, bias)
        return y_PBLD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        dy = _dense_channels(grads[0])
        population, batch, length, channels = x.shape
        taps = weight.shape[1]
        sums = taps + (bias is not None)
        dx_PBLD = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        walks = taps <= MOST_UNROLLED
        # Blocks of whole sequences if the kernel walks, of positions otherwise.
        block = triton.cdiv(BLOCK, length) if walks else rows_per_block(batch * length, BLOCK)
        blocks = triton.cdiv(batch if walks else batch * length, block)
        shares_PNKD = torch.empty(
            population, blocks, sums, channels, device=x.device, dtype=torch.float32
        )
        tensors = (x, weight, weight if bias is None else bias, dy, dx_PBLD, shares_PNKD)
        strides = (*x.stride()[:3], *dy.stride()[:3])
        summed = {"SUMS": sums, "SUM_ROWS": triton.next_power_of_2(sums)}
        if walks:
            columns = min(WALK_COLUMNS, triton.next_power_of_2(channels))
            _walk_back[(population * blocks * triton.cdiv(channels, columns),)](
                *tensors, batch, block, length, channels, *strides, **ctx.constants, **summed,
                STRIDE=min(STRIDE, triton.next_power_of_2(length)), COLUMNS=columns, num_warps=1,
            )  # fmt: skip
        else:
            tile = _tile(channels, BACKWARD_TILE)
            _backward[(population * blocks * triton.cdiv(channels, tile["COLUMNS"]),)](
                *tensors,
                batch * length,
                block,
                length,
                channels,
                *strides,
                **ctx.constants,
                **summed,
                **tile,
                num_warps=WARPS,
            )
        sums_PKD = sum_blocks(shares_PNKD.flatten(2)).view(population, sums, channels)
        dweight_PKD = sums_PKD[:, :taps].contiguous()
        return (
            dx_PBLD,
            dweight_PKD,
            None if bias is None else sums_PKD[:, -1].contiguous(),
            None,
            None,
        )


def _dense_channels(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _tile(channels: int, elements: int) -> dict[str, int]:
    columns = min(MOST_COLUMNS, triton.next_power_of_2(channels))
    return {"ROWS": min(128, elements // columns), "COLUMNS": columns}


@triton.jit
def _forward(
    x_ptr, weight_ptr, bias_ptr, y_ptr, rows, length, channels, x_member, x_batch, x_time,
    TAPS: tl.constexpr, AHEAD: tl.constexpr, BIAS: tl.constexpr, SILU: tl.constexpr,
    UNROLL: tl.constexpr,
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
    x_ptr += (
        member * x_member
        + (row // length).to(tl.int64) * x_batch
        + time.to(tl.int64) * x_time
        + column
    )
    weight_ptr += member * TAPS * channels + column
    bias_ptr += member * channels + column
    z = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    z = _convolved(
        z,
        x_ptr,
        weight_ptr,
        bias_ptr,
        inside,
        valid,
        time,
        length,
        x_time,
        channels,
        AHEAD - (TAPS - 1),
        TAPS,
        BIAS,
        UNROLL,
    )
    y = z * tl.sigmoid(z) if SILU else z
    tl.store(
        y_ptr + (member * rows + row) * channels + column, y.to(y_ptr.dtype.element_ty), mask=inside
    )


@triton.jit
def _convolved(
    z, x_tile, weight_ptr, bias_ptr, inside, valid, time, length, x_time, channels, first,
    TAPS: tl.constexpr, BIAS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Return z plus bias and, for every tap, its weight times x: tap j looks `first` + j positions
    ahead of `time`.
    """
    if BIAS:
        z += tl.load(bias_ptr, mask=valid, other=0.0)
    if UNROLL:
        for j in tl.static_range(TAPS):
            z += _seen(
                x_tile, weight_ptr + j * channels, inside, valid, time, length, x_time, first + j
            )
    else:
        for j in range(TAPS):
            z += _seen(
                x_tile, weight_ptr + j * channels, inside, valid, time, length, x_time, first + j
            )
    return z


@triton.jit
def _seen(x_tile, weight_ptr, inside, valid, time, length, x_time, offset):
    there = inside & (time + offset >= 0) & (time + offset < length)
    x = tl.load(x_tile + offset * x_time, mask=there, other=0.0).to(tl.float32)
    return x * tl.load(weight_ptr, mask=valid, other=0.0)


@triton.jit
def _walk_back(
    x_ptr, weight_ptr, bias_ptr, dy_ptr, dx_ptr, shares_ptr,
    batch, block, length, channels, x_member, x_batch, x_time, dy_member, dy_batch, dy_time,
    TAPS: tl.constexpr, AHEAD: tl.constexpr, BIAS: tl.constexpr, SILU: tl.constexpr,
    UNROLL: tl.constexpr,
    SUMS: tl.constexpr, SUM_ROWS: tl.constexpr, STRIDE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Walk through some sequences of a member, for some channels."""
    parts, blocks = tl.cdiv(channels, COLUMNS), tl.cdiv(batch, block)
    index = tl.program_id(0) // parts
    column = (tl.program_id(0) % parts) * COLUMNS + tl.arange(0, COLUMNS)
    member = (index // blocks).to(tl.int64)
    first = (index % blocks) * block
    valid = column < channels
    weights = ()
    for k in tl.static_range(TAPS):
        weights += (
            tl.load(weight_ptr + (member * TAPS + k) * channels + column, mask=valid, other=0.0),
        )
    bias = tl.zeros([COLUMNS], dtype=tl.float32)
    if BIAS:
        bias += tl.load(bias_ptr + member * channels + column, mask=valid, other=0.0)
    # Makes a tensor of a time, since the interpreter gives a scalar condition a wrong type.
    none = tl.zeros([1], dtype=tl.int32)
    # One row for each tap, and one for the bias.
    sum_row = tl.arange(0, SUM_ROWS)[:, None]
    sums = tl.zeros([SUM_ROWS, COLUMNS], dtype=tl.float32)
    for number in range(first, tl.minimum(first + block, batch)):
        sequence = member * 0 + number  # 64 bits: a member may have more than 2^31 elements
        x_row = x_ptr + member * x_member + sequence * x_batch + column
        dy_row = dy_ptr + member * dy_member + sequence * dy_batch + column
        dx_row = dx_ptr + (member * batch + sequence) * length * channels + column
        for start in range(0, length, STRIDE):
            # xs[i] is x at start - (K - 1) + i, dzs[i] is dz at start - ahead + i; zeros outside
            # the sequence.
            xs = ()
            for i in tl.static_range(STRIDE + 2 * (TAPS - 1)):
                time = none + (start - (TAPS - 1) + i)
                there = valid & (time >= 0) & (time < length)
                xs += (tl.load(x_row + time * x_time, mask=there, other=0.0).to(tl.float32),)
            dzs = ()
            for i in tl.static_range(STRIDE + TAPS - 1):
                time = none + (start - AHEAD + i)
                there = valid & (time >= 0) & (time < length)
                dz = tl.load(dy_row + time * dy_time, mask=there, other=0.0).to(tl.float32)
                if SILU:
                    z = bias
                    for k in tl.static_range(TAPS):
                        z += weights[k] * xs[i + k]
                    share = tl.sigmoid(z)
                    # Selected, not multiplied by 0: outside the sequence z is a sum of some x, and
                    # may be infinite.
                    dz = tl.where(there, dz * share * (1 + z * (1 - share)), 0.0)
                dzs += (dz,)
            for i in tl.static_range(STRIDE):
                dx = tl.zeros([COLUMNS], dtype=tl.float32)
                for k in tl.static_range(TAPS):
                    dx += weights[k] * dzs[i + TAPS - 1 - k]
                inside = valid & (none + (start + i) < length)
                tl.store(
                    dx_row + (start + i) * channels, dx.to(dx_ptr.dtype.element_ty), mask=inside
                )
            for k in tl.static_range(TAPS):
                dweight = tl.zeros([COLUMNS], dtype=tl.float32)
                for i in tl.static_range(STRIDE):
                    dweight += xs[i + TAPS - 1] * dzs[i + TAPS - 1 - k]
                sums += tl.where(sum_row == k, dweight[None, :], 0.0)
            if BIAS:
                dbias = tl.zeros([COLUMNS], dtype=tl.float32)
                for i in tl.static_range(STRIDE):
                    dbias += dzs[i + AHEAD]
                sums += tl.where(sum_row == TAPS, dbias[None, :], 0.0)
    shares_ptr += (member * blocks + index % blocks) * SUMS * channels
    tl.store(
        shares_ptr + sum_row * channels + column[None, :],
        sums,
        mask=(sum_row < SUMS) & valid[None, :],
    )


@triton.jit
def _backward(
    x_ptr, weight_ptr, bias_ptr, dy_ptr, dx_ptr, shares_ptr,
    rows, block, length, channels, x_member, x_batch, x_time, dy_member, dy_batch, dy_time,
    TAPS: tl.constexpr, AHEAD: tl.constexpr, BIAS: tl.constexpr, SILU: tl.constexpr,
    UNROLL: tl.constexpr,
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
        for k in range(TAPS):
            dx, sums = _add_tap(
                dx, sums, sum_row, x, x_tile, dy_tile, weight_ptr, bias_ptr, inside, valid, time,
                length,
                x_time, dy_time, channels, k, TAPS, AHEAD, BIAS, SILU, UNROLL,
            )  # fmt: skip
        tl.store(dx_ptr + row.to(tl.int64) * channels, dx.to(dx_ptr.dtype.element_ty), mask=inside)
    shares_ptr += (member * blocks + index % blocks) * SUMS * channels
    tl.store(shares_ptr + sum_row * channels + column, sums, mask=(sum_row < SUMS) & valid)


@triton.jit
def _add_tap(
    dx, sums, sum_row, x, x_tile, dy_tile, weight_ptr, bias_ptr, inside, valid, time, length,
    x_time, dy_time, channels, k,
    TAPS: tl.constexpr, AHEAD: tl.constexpr, BIAS: tl.constexpr, SILU: tl.constexpr,
    UNROLL: tl.constexpr,
):  # fmt: skip
    """Add tap k's contributions to dx and the sums, through the one output for which it reads
    x_t.
    """
    delay = TAPS - 1 - AHEAD - k
    reached = inside & (time + delay >= 0) & (time + delay < length)
    dz = tl.load(dy_tile + delay * dy_time, mask=reached, other=0.0).to(tl.float32)
    if SILU:
        # Relative to t, the taps of that output look at t - k, ..., t - k + K - 1.
        z = tl.zeros_like(dx)
        z = _convolved(
            z,
            x_tile,
            weight_ptr,
            bias_ptr,
            inside,
            valid,
            time,
            length,
            x_time,
            channels,
            -k,
            TAPS,
            BIAS,
            UNROLL,
        )
        share = tl.sigmoid(z)
        # Selected, not multiplied by 0: without such an output z is a sum of some x, and may be
        # infinite.
        dz = tl.where(reached, dz * share * (1 + z * (1 - share)), 0.0)
    dx += dz * tl.load(weight_ptr + k * channels, mask=valid, other=0.0)
    sums += tl.where(sum_row == k, tl.sum(dz * x, axis=0)[None, :], 0.0)
    if BIAS and delay == 0:
        sums += tl.where(sum_row == TAPS, tl.sum(dz, axis=0)[None, :], 0.0)
    return dx, sums
