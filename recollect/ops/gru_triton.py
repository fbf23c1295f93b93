"""The GRU's walk through time as one kernel: a program keeps one member's recurrent weights and its
rows' state on chip.

    r = sigmoid(x_r + b_r + h_{t-1} U_r)     z = sigmoid(x_z + b_z + h_{t-1} U_z)     s = h_{t-1} U_n + b_s
    n = tanh(x_n + b_n + r s)                h_t = (1 - z) n + z h_{t-1}

Backward, from the last step to the first, with dh the gradient of h_t, its own and what the next
step adds:

    dn = dh (1 - z) (1 - n^2)      ds = dn r      dr = dn s r (1 - r)      dz = dh (h_{t-1} - n) z (1 - z)
    dx = [dr, dz, dn]              dh_{t-1} += dh z + dr U_r^T + dz U_z^T + ds U_n^T

and afterwards dU as products of all h_{t-1} with all of [dr, dz] and ds. Kept for the backward: r,
z, n, s and h. x is float32 or bfloat16, and so are h and everything kept; products are of that
dtype, sums, the state and activations float32, as are U, b and their gradients.

Shapes: P population, B batch, L length, D width, G = 3 D gate channels, F = 4 D biases of r, z, n
and s; in a kernel R rows, W channels.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.recurrent_triton import launch, previous, tanh, weights, weights_fit

GATES = 3


def fits(width: int, dtype: torch.dtype) -> bool:
    return weights_fit(GATES, width, dtype)


def gru(x_PBLG: Tensor, bias_PF: Tensor, recur_PDG: Tensor) -> Tensor:
    """h_PBLD; differentiable in everything."""
    return _GRU.apply(x_PBLG, bias_PF, recur_PDG, torch.is_grad_enabled())


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, recur: Tensor, keep: bool) -> Tensor:
        x, bias, recur = x.contiguous(), bias.contiguous(), recur.contiguous()
        population, batch, length, channels = x.shape
        h_PBLD = x.new_empty(population, batch, length, channels // 3)
        kept_PBLF = x.new_empty(population, batch, length, channels // 3 * 4) if keep else x
        launch(_forward, (x, bias, recur, h_PBLD, kept_PBLF), h_PBLD, KEEP=keep)
        ctx.save_for_backward(recur, h_PBLD, kept_PBLF)
        return h_PBLD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        recur, h_PBLD, kept_PBLF = ctx.saved_tensors
        population, batch, length, width = h_PBLD.shape
        dx_PBLG, ds_PBLD = (
            h_PBLD.new_empty(population, batch, length, 3 * width),
            torch.empty_like(h_PBLD),
        )
        launch(
            _backward, (recur, h_PBLD, kept_PBLF, grads[0].contiguous(), dx_PBLG, ds_PBLD), h_PBLD
        )
        before_PDM = previous(h_PBLD).transpose(1, 2)
        parts = dx_PBLG.flatten(1, 2)[..., : 2 * width], ds_PBLD.flatten(1, 2)
        drecur_PDG = torch.cat([torch.bmm(before_PDM, part).float() for part in parts], dim=2)
        dbias_PF = torch.cat(
            [part.sum((1, 2), dtype=torch.float32) for part in (dx_PBLG, ds_PBLD)], dim=1
        )
        return dx_PBLG, dbias_PF, drecur_PDG, None


@triton.jit
def _forward(
    x_ptr, bias_ptr, recur_ptr, h_ptr, kept_ptr, batch, length, width,
    KEEP: tl.constexpr, R: tl.constexpr, W: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(batch, R)
    p = (tl.program_id(0) // tiles).to(tl.int64)
    first = (tl.program_id(0) % tiles) * R
    row, column = tl.arange(0, R)[:, None], tl.arange(0, W)[None, :]
    inside = (first + row < batch) & (column < width)
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    u_r = weights(recur_ptr, p, 0, width, dtype, 3, W)
    u_z = weights(recur_ptr, p, 1, width, dtype, 3, W)
    u_n = weights(recur_ptr, p, 2, width, dtype, 3, W)
    bias_ptr += p * 4 * width + column
    b_r = tl.load(bias_ptr, mask=column < width, other=0.0)
    b_z = tl.load(bias_ptr + width, mask=column < width, other=0.0)
    b_n = tl.load(bias_ptr + 2 * width, mask=column < width, other=0.0)
    b_s = tl.load(bias_ptr + 3 * width, mask=column < width, other=0.0)
    start = (p * batch + first) * length * width  # 64 bits for one number; within a tile 32 bits do
    x_ptr, h_ptr, kept_ptr = x_ptr + 3 * start, h_ptr + start, kept_ptr + 4 * start
    h = tl.zeros([R, W], dtype=tl.float32)
    for t in range(length):
        place = row * length + t
        here, there = place * 3 * width + column, place * 4 * width + column
        x_r = tl.load(x_ptr + here, mask=inside, other=0.0)
        x_z = tl.load(x_ptr + here + width, mask=inside, other=0.0)
        x_n = tl.load(x_ptr + here + 2 * width, mask=inside, other=0.0)
        rounded = h.to(dtype)
        # A gate is stored before the next one is made: what waits for a store waits in registers.
        r = tl.sigmoid(tl.dot(rounded, u_r, input_precision=PRECISION) + (x_r + b_r))
        if KEEP:
            tl.store(kept_ptr + there, r.to(dtype), mask=inside)
        s = tl.dot(rounded, u_n, input_precision=PRECISION) + b_s
        if KEEP:
            tl.store(kept_ptr + there + 3 * width, s.to(dtype), mask=inside)
        n = tanh(x_n + b_n + r * s)
        if KEEP:
            tl.store(kept_ptr + there + 2 * width, n.to(dtype), mask=inside)
        z = tl.sigmoid(tl.dot(rounded, u_z, input_precision=PRECISION) + (x_z + b_z))
        if KEEP:
            tl.store(kept_ptr + there + width, z.to(dtype), mask=inside)
        h = n + z * (h - n)
        tl.store(h_ptr + place * width + column, h.to(dtype), mask=inside)


@triton.jit
def _backward(
    recur_ptr, h_ptr, kept_ptr, dy_ptr, dx_ptr, ds_ptr, batch, length, width,
    R: tl.constexpr, W: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(batch, R)
    p = (tl.program_id(0) // tiles).to(tl.int64)
    first = (tl.program_id(0) % tiles) * R
    row, column = tl.arange(0, R)[:, None], tl.arange(0, W)[None, :]
    inside = (first + row < batch) & (column < width)
    dtype: tl.constexpr = h_ptr.dtype.element_ty
    u_r = tl.trans(weights(recur_ptr, p, 0, width, dtype, 3, W))
    u_z = tl.trans(weights(recur_ptr, p, 1, width, dtype, 3, W))
    u_n = tl.trans(weights(recur_ptr, p, 2, width, dtype, 3, W))
    start = (p * batch + first) * length * width
    h_ptr, dy_ptr, ds_ptr = h_ptr + start, dy_ptr + start, ds_ptr + start
    kept_ptr, dx_ptr = kept_ptr + 4 * start, dx_ptr + 3 * start
    dh = tl.zeros([R, W], dtype=tl.float32)
    for step in range(length):
        t = length - 1 - step
        place = row * length + t
        here, there, own = (
            place * 3 * width + column,
            place * 4 * width + column,
            place * width + column,
        )
        r = tl.load(kept_ptr + there, mask=inside, other=0.0).to(tl.float32)
        z = tl.load(kept_ptr + there + width, mask=inside, other=0.0).to(tl.float32)
        n = tl.load(kept_ptr + there + 2 * width, mask=inside, other=0.0).to(tl.float32)
        s = tl.load(kept_ptr + there + 3 * width, mask=inside, other=0.0).to(tl.float32)
        before = tl.load(h_ptr + own - width, mask=inside & (column * 0 + t > 0), other=0.0).to(
            tl.float32
        )
        dh += tl.load(dy_ptr + own, mask=inside, other=0.0).to(tl.float32)
        dz = (dh * (before - n) * z * (1 - z)).to(dtype)
        tl.store(dx_ptr + here + width, dz, mask=inside)
        dn = dh * (1 - z) * (1 - n * n)
        tl.store(dx_ptr + here + 2 * width, dn.to(dtype), mask=inside)
        dh = tl.dot(dz, u_z, dh * z, input_precision=PRECISION)
        ds = (dn * r).to(dtype)
        tl.store(ds_ptr + own, ds, mask=inside)
        dh = tl.dot(ds, u_n, dh, input_precision=PRECISION)
        dr = (dn * s * r * (1 - r)).to(dtype)
        tl.store(dx_ptr + here, dr, mask=inside)
        dh = tl.dot(dr, u_r, dh, input_precision=PRECISION)
