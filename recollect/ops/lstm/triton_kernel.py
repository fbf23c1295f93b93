"""The LSTM's walk through time as one kernel: a program keeps one member's recurrent weights and
its rows' state on chip.

    [i, f, g, o] = x_t + b + h_{t-1} U           with i, f, o through the sigmoid and g through tanh
    c_t = f c_{t-1} + i g        h_t = o tanh(c_t)

Backward, from the last step to the first, with dh the gradient of h_t (its own and what the next
step adds) and dc the gradient of c_t:

    do = dh tanh(c_t)        dc += dh o (1 - tanh(c_t)^2)
    di = dc g        dg = dc i        df = dc c_{t-1}        dc_{t-1} = dc f
    dx = those through the derivatives of sigmoid and tanh        dh_{t-1} += dx U^T

and afterwards dU as one product of all h_{t-1} with all dx. Kept for the backward: i, f, g, o, c
and h. x is float32 or bfloat16, and so are h and everything kept; products are of that dtype, sums,
c and activations float32, as are U, b and their gradients.

Shapes: P population, B batch, L length, D width, G = 4 D gate channels; in a kernel R rows, W
channels.
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

GATES = 4


def fits(width: int, dtype: torch.dtype, shared: int) -> bool:
    return shared_bytes(width, dtype) <= shared


def shared_bytes(width: int, dtype: torch.dtype) -> int:
    return weights_bytes(GATES, width, dtype)


def lstm(x_PBLG: Tensor, bias_PG: Tensor, recur_PDG: Tensor) -> Tensor:
    """h_PBLD; differentiable in everything."""
    return _LSTM.apply(x_PBLG, bias_PG, recur_PDG, torch.is_grad_enabled())


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, recur: Tensor, keep: bool) -> Tensor:
        x, bias, recur = x.contiguous(), bias.contiguous(), recur.contiguous()
        population, batch, length, channels = x.shape
        h_PBLD = x.new_empty(population, batch, length, channels // 4)
        gates_PBLG, cell_PBLD = (
            (torch.empty_like(x), torch.empty_like(h_PBLD)) if keep else (x, h_PBLD)
        )
        launch(_forward, (x, bias, recur, h_PBLD, gates_PBLG, cell_PBLD), h_PBLD, KEEP=keep)
        ctx.save_for_backward(recur, h_PBLD, gates_PBLG, cell_PBLD)
        return h_PBLD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        recur, h_PBLD, gates_PBLG, cell_PBLD = ctx.saved_tensors
        dx_PBLG = torch.empty_like(gates_PBLG)
        launch(_backward, (recur, gates_PBLG, cell_PBLD, grads[0].contiguous(), dx_PBLG), h_PBLD)
        drecur_PDG = torch.bmm(previous(h_PBLD).transpose(1, 2), dx_PBLG.flatten(1, 2))
        return dx_PBLG, dx_PBLG.sum((1, 2), dtype=torch.float32), drecur_PDG.float(), None


@triton.jit
def _forward(
    x_ptr, bias_ptr, recur_ptr, h_ptr, gates_ptr, cell_ptr, batch, length, width,
    KEEP: tl.constexpr, R: tl.constexpr, W: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    p, start, row, column, inside = own_rows(batch, length, width, R, W)
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    u_i = weights(recur_ptr, p, 0, width, dtype, 4, W)
    u_f = weights(recur_ptr, p, 1, width, dtype, 4, W)
    u_g = weights(recur_ptr, p, 2, width, dtype, 4, W)
    u_o = weights(recur_ptr, p, 3, width, dtype, 4, W)
    b_i = bias(bias_ptr, p, 0, width, 4, W)
    b_f = bias(bias_ptr, p, 1, width, 4, W)
    b_g = bias(bias_ptr, p, 2, width, 4, W)
    b_o = bias(bias_ptr, p, 3, width, 4, W)
    x_ptr, gates_ptr = x_ptr + 4 * start, gates_ptr + 4 * start
    h_ptr, cell_ptr = h_ptr + start, cell_ptr + start
    narrow_rows = row * length * width + column
    wide_rows = row * length * 4 * width + column
    c = tl.zeros([R, W], dtype=tl.float32)
    h = tl.zeros([R, W], dtype=dtype)
    for t in range(length):
        narrow, wide = narrow_rows + t * width, wide_rows + t * 4 * width
        x_i = load_gate(x_ptr + wide, 0, width, inside)
        x_f = load_gate(x_ptr + wide, 1, width, inside)
        x_g = load_gate(x_ptr + wide, 2, width, inside)
        x_o = load_gate(x_ptr + wide, 3, width, inside)
        # A gate is stored before the next one is computed: values to be stored occupy registers.
        f = tl.sigmoid(tl.dot(h, u_f, input_precision=PRECISION) + (x_f + b_f))
        if KEEP:
            store_gate(gates_ptr + wide, 1, width, f.to(dtype), inside)
        i = tl.sigmoid(tl.dot(h, u_i, input_precision=PRECISION) + (x_i + b_i))
        if KEEP:
            store_gate(gates_ptr + wide, 0, width, i.to(dtype), inside)
        g = tanh(tl.dot(h, u_g, input_precision=PRECISION) + (x_g + b_g))
        c = f * c + i * g
        if KEEP:
            store_gate(gates_ptr + wide, 2, width, g.to(dtype), inside)
            tl.store(cell_ptr + narrow, c.to(dtype), mask=inside)
        o = tl.sigmoid(tl.dot(h, u_o, input_precision=PRECISION) + (x_o + b_o))
        if KEEP:
            store_gate(gates_ptr + wide, 3, width, o.to(dtype), inside)
        h = (o * tanh(c)).to(dtype)
        tl.store(h_ptr + narrow, h, mask=inside)


@triton.jit
def _backward(
    recur_ptr, gates_ptr, cell_ptr, dy_ptr, dx_ptr, batch, length, width,
    R: tl.constexpr, W: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    p, start, row, column, inside = own_rows(batch, length, width, R, W)
    dtype: tl.constexpr = gates_ptr.dtype.element_ty
    u_i = tl.trans(weights(recur_ptr, p, 0, width, dtype, 4, W))
    u_f = tl.trans(weights(recur_ptr, p, 1, width, dtype, 4, W))
    u_g = tl.trans(weights(recur_ptr, p, 2, width, dtype, 4, W))
    u_o = tl.trans(weights(recur_ptr, p, 3, width, dtype, 4, W))
    gates_ptr, dx_ptr = gates_ptr + 4 * start, dx_ptr + 4 * start
    cell_ptr, dy_ptr = cell_ptr + start, dy_ptr + start
    narrow_rows = row * length * width + column
    wide_rows = row * length * 4 * width + column
    c = load_gate(cell_ptr + narrow_rows, length - 1, width, inside)
    dh = tl.zeros([R, W], dtype=tl.float32)
    dc = tl.zeros([R, W], dtype=tl.float32)
    for step in range(length):
        t = length - 1 - step
        narrow, wide = narrow_rows + t * width, wide_rows + t * 4 * width
        i = load_gate(gates_ptr + wide, 0, width, inside)
        f = load_gate(gates_ptr + wide, 1, width, inside)
        g = load_gate(gates_ptr + wide, 2, width, inside)
        o = load_gate(gates_ptr + wide, 3, width, inside)
        before = load_gate(cell_ptr + narrow, -1, width, inside & (column * 0 + t > 0))
        dh += load_gate(dy_ptr + narrow, 0, width, inside)
        squashed = tanh(c)
        dc += dh * o * (1 - squashed * squashed)
        do = (dh * squashed * o * (1 - o)).to(dtype)
        store_gate(dx_ptr + wide, 3, width, do, inside)
        dh = tl.dot(do, u_o, input_precision=PRECISION)
        di = (dc * g * i * (1 - i)).to(dtype)
        store_gate(dx_ptr + wide, 0, width, di, inside)
        dh = tl.dot(di, u_i, dh, input_precision=PRECISION)
        dg = (dc * i * (1 - g * g)).to(dtype)
        store_gate(dx_ptr + wide, 2, width, dg, inside)
        dh = tl.dot(dg, u_g, dh, input_precision=PRECISION)
        df = (dc * before * f * (1 - f)).to(dtype)
        store_gate(dx_ptr + wide, 1, width, df, inside)
        dh = tl.dot(df, u_f, dh, input_precision=PRECISION)
        dc *= f
        c = before
