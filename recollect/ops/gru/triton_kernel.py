"""The GRU's walk through time as one kernel: a program keeps one member's recurrent weights and its
rows' state on chip.

    r = sigmoid(x_r + b_r + h_{t-1} U_r)        z = sigmoid(x_z + b_z + h_{t-1} U_z)
    s = h_{t-1} U_n + b_s        n = tanh(x_n + b_n + r s)        h_t = (1 - z) n + z h_{t-1}

Backward, from the last step to the first, with dh the gradient of h_t, its own and what the next
step adds:

    dn = dh (1 - z) (1 - n^2)      dz = dh (h_{t-1} - n) z (1 - z)
    ds = dn r      dr = dn s r (1 - r)      dx = [dr, dz, dn]
    dh_{t-1} += dh z + dr U_r^T + dz U_z^T + ds U_n^T

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

from recollect.ops.triton_recurrent import (
    bias,
    launch,
    load_gate,
    own_rows,
    previous,
    store_gate,
    tanh,
    weights,
    weights_bytes,
)

GATES = 3


def fits(width: int, dtype: torch.dtype, shared: int) -> bool:
    return shared_bytes(width, dtype) <= shared


def shared_bytes(width: int, dtype: torch.dtype) -> int:
    return weights_bytes(GATES, width, dtype)


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
    p, start, row, column, inside = own_rows(batch, length, width, R, W)
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    u_r = weights(recur_ptr, p, 0, width, dtype, 3, W)
    u_z = weights(recur_ptr, p, 1, width, dtype, 3, W)
    u_n = weights(recur_ptr, p, 2, width, dtype, 3, W)
    b_r = bias(bias_ptr, p, 0, width, 4, W)
    b_z = bias(bias_ptr, p, 1, width, 4, W)
    b_n = bias(bias_ptr, p, 2, width, 4, W)
    b_s = bias(bias_ptr, p, 3, width, 4, W)
    x_ptr, h_ptr, kept_ptr = x_ptr + 3 * start, h_ptr + start, kept_ptr + 4 * start
    h = tl.zeros([R, W], dtype=tl.float32)
    for t in range(length):
        place = row * length + t
        wide, kept = place * 3 * width + column, place * 4 * width + column
        x_r = load_gate(x_ptr + wide, 0, width, inside)
        x_z = load_gate(x_ptr + wide, 1, width, inside)
        x_n = load_gate(x_ptr + wide, 2, width, inside)
        rounded = h.to(dtype)
        # A gate is stored before the next one is computed: values to be stored occupy registers.
        r = tl.sigmoid(tl.dot(rounded, u_r, input_precision=PRECISION) + (x_r + b_r))
        if KEEP:
            store_gate(kept_ptr + kept, 0, width, r.to(dtype), inside)
        s = tl.dot(rounded, u_n, input_precision=PRECISION) + b_s
        if KEEP:
            store_gate(kept_ptr + kept, 3, width, s.to(dtype), inside)
        n = tanh(x_n + b_n + r * s)
        if KEEP:
            store_gate(kept_ptr + kept, 2, width, n.to(dtype), inside)
        z = tl.sigmoid(tl.dot(rounded, u_z, input_precision=PRECISION) + (x_z + b_z))
        if KEEP:
            store_gate(kept_ptr + kept, 1, width, z.to(dtype), inside)
        h = n + z * (h - n)
        tl.store(h_ptr + place * width + column, h.to(dtype), mask=inside)


@triton.jit
def _backward(
    recur_ptr, h_ptr, kept_ptr, dy_ptr, dx_ptr, ds_ptr, batch, length, width,
    R: tl.constexpr, W: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    p, start, row, column, inside = own_rows(batch, length, width, R, W)
    dtype: tl.constexpr = h_ptr.dtype.element_ty
    u_r = tl.trans(weights(recur_ptr, p, 0, width, dtype, 3, W))
    u_z = tl.trans(weights(recur_ptr, p, 1, width, dtype, 3, W))
    u_n = tl.trans(weights(recur_ptr, p, 2, width, dtype, 3, W))
    h_ptr, dy_ptr, ds_ptr = h_ptr + start, dy_ptr + start, ds_ptr + start
    kept_ptr, dx_ptr = kept_ptr + 4 * start, dx_ptr + 3 * start
    dh = tl.zeros([R, W], dtype=tl.float32)
    for step in range(length):
        t = length - 1 - step
        place = row * length + t
        narrow = place * width + column
        wide, kept = place * 3 * width + column, place * 4 * width + column
        r = load_gate(kept_ptr + kept, 0, width, inside)
        z = load_gate(kept_ptr + kept, 1, width, inside)
        n = load_gate(kept_ptr + kept, 2, width, inside)
        s = load_gate(kept_ptr + kept, 3, width, inside)
        before = load_gate(h_ptr + narrow, -1, width, inside & (column * 0 + t > 0))
        dh += load_gate(dy_ptr + narrow, 0, width, inside)
        dz = (dh * (before - n) * z * (1 - z)).to(dtype)
        store_gate(dx_ptr + wide, 1, width, dz, inside)
        dn = dh * (1 - z) * (1 - n * n)
        store_gate(dx_ptr + wide, 2, width, dn.to(dtype), inside)
        dh = tl.dot(dz, u_z, dh * z, input_precision=PRECISION)
        ds = (dn * r).to(dtype)
        store_gate(ds_ptr + narrow, 0, width, ds, inside)
        dh = tl.dot(ds, u_n, dh, input_precision=PRECISION)
        dr = (dn * s * r * (1 - r)).to(dtype)
        store_gate(dx_ptr + wide, 0, width, dr, inside)
        dh = tl.dot(dr, u_r, dh, input_precision=PRECISION)
