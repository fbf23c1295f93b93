"""Kernels of `diagonal_scan`: one thread follows a channel of a sequence through time.

    h_t = a_t h_{t-1} + x_t        g_t = dh_t + a_{t+1} g_{t+1}
    dx_t = g_t                     da_t = g_t h_{t-1}, da_0 = 0

Every tensor that comes in is read where it lies, whatever its strides: a decay that is shared along
an axis is not copied for each of its uses. a, x and h are float32 or bfloat16, h_{t-1} and g_{t+1}
in registers float32.

Shapes: P population, B batch, L length, E and C channels, R = B E rows of one member. A tile is
rows times the channels C.
"""

# A kernel's parameters have Triton's types, which Python's checker cannot know.
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, misc"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# Two channels for each thread of two warps, for the same reasons as in wkv/triton_kernel.py.
TILE, WARPS = 128, 2


def diagonal_scan(a: Tensor, x: Tensor) -> Tensor:
    return _Scan.apply(a, x)


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        a, x = _two_channel_axes(a), _two_channel_axes(x)
        h_PBLEC = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        tile = _tile(x)
        _forward[_grid(x, tile)](
            a, x, h_PBLEC, *x.shape[1:], *a.stride(), *x.stride(), **tile, num_warps=WARPS
        )
        ctx.save_for_backward(a, h_PBLEC)
        return h_PBLEC.view(ctx.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        a, h_PBLEC = ctx.saved_tensors
        dh = _two_channel_axes(grads[0])
        dx_PBLEC = torch.empty(h_PBLEC.shape, device=a.device, dtype=h_PBLEC.dtype)
        da_PBLEC = torch.empty(h_PBLEC.shape, device=a.device, dtype=a.dtype)
        tile = _tile(h_PBLEC)
        _backward[_grid(h_PBLEC, tile)](
            a,
            h_PBLEC,
            dh,
            dx_PBLEC,
            da_PBLEC,
            *h_PBLEC.shape[1:],
            *a.stride(),
            *dh.stride(),
            **tile,
            num_warps=WARPS,
        )
        return da_PBLEC.view(ctx.shape), dx_PBLEC.view(ctx.shape)


def _two_channel_axes(x: Tensor) -> Tensor:
    """View (P, B, L, ...) as (P, B, L, E, C), for up to two axes of channels."""
    if x.dim() == 3:
        return x[..., None, None]
    return x.unsqueeze(3) if x.dim() == 4 else x.flatten(3, -2)


def _tile(x_PBLEC: Tensor) -> dict[str, int]:
    columns = min(TILE, triton.next_power_of_2(x_PBLEC.shape[-1]))
    return {"ROWS": TILE // columns, "COLUMNS": columns}


def _grid(x_PBLEC: Tensor, tile: dict[str, int]) -> tuple[int]:
    population, batch, _, outer, channels = x_PBLEC.shape
    return (
        population
        * triton.cdiv(batch * outer, tile["ROWS"])
        * triton.cdiv(channels, tile["COLUMNS"]),
    )


@triton.jit
def _place(batch, outer, channels, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return member, batch rows, outer and inner channels of this program, and which are valid."""
    parts, tiles = tl.cdiv(channels, COLUMNS), tl.cdiv(batch * outer, ROWS)
    index = tl.program_id(0) // parts
    column = (tl.program_id(0) % parts) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    member = (index // tiles).to(tl.int64)
    row = (index % tiles) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (row < batch * outer) & (column < channels)
    return member, (row // outer).to(tl.int64), (row % outer).to(tl.int64), column, inside


@triton.jit
def _forward(
    a_ptr, x_ptr, h_ptr, batch, length, outer, channels,
    a_member, a_row, a_time, a_outer, a_channel, x_member, x_row, x_time, x_outer, x_channel,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    member, row, e, c, inside = _place(batch, outer, channels, ROWS, COLUMNS)
    a_ptr += member * a_member + row * a_row + e * a_outer + c * a_channel
    x_ptr += member * x_member + row * x_row + e * x_outer + c * x_channel
    h_ptr += ((member * batch + row) * length * outer + e) * channels + c
    h = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for t in range(length):
        # The first decay has no effect, even if it is NaN.
        a = tl.load(a_ptr, mask=inside & (t > 0), other=0.0).to(tl.float32)
        h = a * h + tl.load(x_ptr, mask=inside, other=0.0).to(tl.float32)
        tl.store(h_ptr, h.to(h_ptr.dtype.element_ty), mask=inside)
        a_ptr += a_time
        x_ptr += x_time
        h_ptr += outer * channels


@triton.jit
def _backward(
    a_ptr, h_ptr, dh_ptr, dx_ptr, da_ptr, batch, length, outer, channels,
    a_member, a_row, a_time, a_outer, a_channel, dh_member, dh_row, dh_time, dh_outer, dh_channel,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    member, row, e, c, inside = _place(batch, outer, channels, ROWS, COLUMNS)
    last = length - 1
    a_ptr += member * a_member + row * a_row + last * a_time + e * a_outer + c * a_channel
    dh_ptr += member * dh_member + row * dh_row + last * dh_time + e * dh_outer + c * dh_channel
    step = outer * channels
    place = ((member * batch + row) * length + last) * step + e * channels + c
    later = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for t in range(length - 1, -1, -1):
        g = tl.load(dh_ptr, mask=inside, other=0.0).to(tl.float32) + later
        a = tl.load(a_ptr, mask=inside, other=0.0).to(tl.float32)
        before = tl.load(h_ptr + place - step, mask=inside & (t > 0), other=0.0).to(tl.float32)
        tl.store(dx_ptr + place, g.to(dx_ptr.dtype.element_ty), mask=inside)
        tl.store(
            da_ptr + place,
            tl.where(t > 0, g * before, 0.0).to(da_ptr.dtype.element_ty),
            mask=inside,
        )
        later = a * g
        a_ptr -= a_time
        dh_ptr -= dh_time
        place -= step
