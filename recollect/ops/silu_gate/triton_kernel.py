"""y SiLU(z) as a kernel, forward and backward: z may be part of a larger tensor, and only y and z
are kept.

Shapes: M rows, E channels; `...` is any number of axes.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

GATE_ELEMENTS = 1024  # per program: 4 warps, 8 per thread


def silu_gate(y: Tensor, gate: Tensor) -> Tensor:
    """Return y SiLU(gate) for two tensors (..., E), in the dtype of y."""
    return _Gate.apply(y, gate)


class _Gate(torch.autograd.Function):
    """y SiLU(z), with sigma = sigmoid(z):
    dy = dout z sigma and dz = dout y (sigma + z sigma (1 - sigma)).
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, gate: Tensor) -> Tensor:
        y = y.contiguous()
        # Usually half of a larger tensor, so its rows are read in place.
        gate_ME = gate.reshape(-1, gate.shape[-1])
        gate_ME = gate_ME if gate_ME.stride(1) == 1 else gate_ME.contiguous()
        out = torch.empty_like(y)
        _launch_gate(_gate_kernel, gate_ME, y, gate_ME, out)
        ctx.save_for_backward(y, gate_ME)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        y, gate_ME = ctx.saved_tensors
        dy, dgate = torch.empty_like(y), torch.empty(y.shape, dtype=gate_ME.dtype, device=y.device)
        _launch_gate(_gate_backward_kernel, gate_ME, grads[0].contiguous(), y, gate_ME, dy, dgate)
        return dy, dgate


def _launch_gate(kernel: Any, gate_ME: Tensor, *tensors: Tensor) -> None:
    rows, channels = gate_ME.shape
    columns = min(GATE_ELEMENTS, triton.next_power_of_2(channels))
    tile = {"ROWS": GATE_ELEMENTS // columns, "COLUMNS": columns}
    if rows * channels:
        grid = (triton.cdiv(rows, tile["ROWS"]) * triton.cdiv(channels, columns),)
        kernel[grid](*tensors, rows, channels, gate_ME.stride(0), **tile, num_warps=4)


@triton.jit
def _gate_tile(rows, channels, gate_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return where a program's elements are, in a plain tensor and in the gate, and which are
    valid.
    """
    blocks = tl.cdiv(channels, COLUMNS)
    row_R1 = ((tl.program_id(0) // blocks).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    column_1C = ((tl.program_id(0) % blocks) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    mask_RC = (row_R1 < rows) & (column_1C < channels)
    return row_R1 * channels + column_1C, row_R1 * gate_stride + column_1C, mask_RC


@triton.jit
def _gate_kernel(
    y_ptr, gate_ptr, out_ptr, rows, channels, gate_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    at, gate_at, mask = _gate_tile(rows, channels, gate_stride, ROWS, COLUMNS)
    gate = tl.load(gate_ptr + gate_at, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, y * gate * tl.sigmoid(gate), mask=mask)


@triton.jit
def _gate_backward_kernel(
    dout_ptr,
    y_ptr,
    gate_ptr,
    dy_ptr,
    dgate_ptr,
    rows,
    channels,
    gate_stride,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    at, gate_at, mask = _gate_tile(rows, channels, gate_stride, ROWS, COLUMNS)
    gate = tl.load(gate_ptr + gate_at, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + at, mask=mask, other=0.0).to(tl.float32)
    dout = tl.load(dout_ptr + at, mask=mask, other=0.0).to(tl.float32)
    sigma = tl.sigmoid(gate)
    silu = gate * sigma
    tl.store(dy_ptr + at, dout * silu, mask=mask)
    tl.store(dgate_ptr + at, dout * y * (sigma + silu * (1 - sigma)), mask=mask)
