"""Mamba's operations between its products on a CPU, in float32: scan, short convolution and gate.

Shapes: P population, B batch, L length, E channels, N state, K taps and chunks, R blocks of rows.

Plain PyTorch passes over memory once per operation, and into memory that is new each time; here a row of one member stays in
the cache from its inputs to its outputs. The scan is the recurrence of selective_scan.py with the softplus before it and the
direct path after it; as there, its backward pass keeps the states at chunk borders and computes those inside a chunk again.

No bit depends on P, a member's place or the number of threads: a thread takes whole rows, and what is summed over rows is
summed by blocks of rows, whose sums are added in order.
"""

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from recollect.ops import mamba_numba
from recollect.ops.mamba_numba import CHUNK, LOG2_E, ROWS


def scan(u_PBLE: Tensor, raw_PBLE: Tensor, a_PEN: Tensor, b_PBLN: Tensor, c_PBLN: Tensor, skip_PE: Tensor) -> Tensor:
    """selective_scan(u, softplus(raw), a, b, c) + skip u, for a <= 0."""
    y_PBLE: Tensor = _Scan.apply(u_PBLE, raw_PBLE, a_PEN, b_PBLN, c_PBLN, skip_PE)
    return y_PBLE


def conv_silu(x_PBLE: Tensor, weight_PKE: Tensor, bias_PE: Tensor) -> Tensor:
    """short_conv(x, weight, bias, ahead=0, "silu")."""
    y_PBLE: Tensor = _ConvSilu.apply(x_PBLE, weight_PKE, bias_PE)
    return y_PBLE


def silu_gate(y: Tensor, gate: Tensor) -> Tensor:
    """y SiLU(gate), for two tensors of one shape."""
    out: Tensor = _SiluGate.apply(y, gate)
    return out


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, raw: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor) -> Tensor:
        population, batch, length, channels = u.shape
        u, raw, skip = u.contiguous(), raw.contiguous(), skip.contiguous()
        rates_PNE = (a.transpose(1, 2) * float(LOG2_E)).contiguous()
        y_PBLE = torch.empty_like(u)
        borders_PBKNE = u.new_empty(population, batch, -(-length // CHUNK), a.shape[2], channels)
        _share(mamba_numba.scan_rows, (u, raw, rates_PNE, b, c, skip, y_PBLE, borders_PBKNE), _blocks(u))
        ctx.save_for_backward(u, raw, rates_PNE, b, c, skip, borders_PBKNE)
        return y_PBLE

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        u, raw, rates_PNE, b, c, *_ = ctx.saved_tensors
        du, draw, db, dc = (x.new_empty(x.shape) for x in (u, raw, b, c))
        blocks = -(-u.shape[1] // ROWS)
        da_PRNE = u.new_empty(u.shape[0], blocks, *rates_PNE.shape[1:])
        dskip_PRE = u.new_empty(u.shape[0], blocks, u.shape[3])
        outputs = (du, draw, db, dc, da_PRNE, dskip_PRE)
        _share(mamba_numba.scan_rows_backward, (grads[0].contiguous(), *ctx.saved_tensors, *outputs), _blocks(u))
        return du, draw, _added(da_PRNE).transpose(1, 2), db, dc, _added(dskip_PRE)


class _ConvSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        weight, bias = weight.contiguous(), bias.contiguous()
        y_PBLE = x.new_empty(x.shape)
        _share(mamba_numba.conv_rows, (*_flat(x), weight, bias, y_PBLE), _blocks(x))
        ctx.save_for_backward(x, weight, bias)
        return y_PBLE

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        x, weight, bias = ctx.saved_tensors
        population, batch, *_ = x.shape
        dx = x.new_empty(x.shape)
        dweight_PRKE = x.new_empty(population, -(-batch // ROWS), *weight.shape[1:])
        dbias_PRE = x.new_empty(population, -(-batch // ROWS), weight.shape[2])
        arguments = (grads[0].contiguous(), *_flat(x), weight, bias, dx, dweight_PRKE, dbias_PRE)
        _share(mamba_numba.conv_rows_backward, arguments, _blocks(x))
        return dx, _added(dweight_PRKE), _added(dbias_PRE)


class _SiluGate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, gate: Tensor) -> Tensor:
        y = y.contiguous()
        out = torch.empty_like(y)
        y_ME, out_ME = y.flatten(0, -2), out.flatten(0, -2)
        _share(mamba_numba.gate_rows, (y_ME, *_flat(gate), out_ME), len(y_ME))
        ctx.save_for_backward(y, gate)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        y, gate = ctx.saved_tensors
        dy, dgate = torch.empty_like(y), torch.empty_like(y)
        dout_ME, y_ME, dy_ME, dgate_ME = (x.flatten(0, -2) for x in (grads[0].contiguous(), y, dy, dgate))
        _share(mamba_numba.gate_rows_backward, (dout_ME, y_ME, *_flat(gate), dy_ME, dgate_ME), len(y_ME))
        return dy, dgate


def _flat(x: Tensor) -> tuple[Tensor, int]:
    """The memory from x's first number to its last, and how far apart its rows begin: half a product is taken as it is."""
    x_ME = x.detach().reshape(-1, x.shape[-1])
    x_ME = x_ME if x_ME.stride(1) == 1 else x_ME.contiguous()
    rows, channels = x_ME.shape
    width = x_ME.stride(0)
    return x_ME.as_strided(((rows - 1) * width + channels,), (1,)), width


def _blocks(x_PBLE: Tensor) -> int:
    return x_PBLE.shape[0] * -(-x_PBLE.shape[1] // ROWS)


def _added(parts_PR: Tensor) -> Tensor:
    """The sum over blocks of rows, one after the other."""
    first, *others = parts_PR.unbind(1)
    total = first.clone()
    for part in others:
        total += part
    return total


def _share(work: Callable[..., None], arguments: tuple[Tensor | int, ...], count: int) -> None:
    """Let as many threads as PyTorch has do `work` on a part of the blocks or rows each, this one on the first part."""
    arrays = [argument.detach().numpy() if isinstance(argument, Tensor) else argument for argument in arguments]
    threads = min(torch.get_num_threads(), count)
    borders = [count * i // threads for i in range(threads + 1)]
    own, *parts = pairwise(borders)
    others = [threading.Thread(target=work, args=(*arrays, *part)) for part in parts]
    for thread in others:
        thread.start()
    work(*arrays, *own)
    for thread in others:
        thread.join()
