"""Hyena's two gates and two convolutions, on tensors whose positions are dense: channel by channel
(P, C, B, L).

    z = short * (x + bias) + shift      [z1, z2, v] = z
    u = v z1       m = filter * u       y = m z2
    dz2 = g m      dm = g z2      du = C'(dm)      dz1 = du v      dv = du z1      dx = S'(dz)

x is the product before it, without its bias; g is the gradient of y, C' and S' are the long and the
short convolution against time. `filter` has the direct path in it, as part of lag 0.

A convolution of many rows with one filter, long or short, is a product of the rows with a Toeplitz
matrix, made on chip. In bfloat16 a tile holds whole sequences of up to 64 positions: one kernel
forward, and two backward, the first for everything after u, the second for the inputs of u. x and u
are kept for them. A filter's gradient sums the square u' dm along its diagonals, a tap's gradient
sums (x + bias)' dz. Longer sequences, where a position of u belongs to many tiles, and float32,
whose tiles are too large for that, read z from memory. In these cases only x is kept, and z is
computed again.

Inputs are float32 or bfloat16 and rounded to that, as are taps and filter, before each product;
sums are float32, as are filters, taps, biases and their gradients.

Shapes: P population, B batch, L length, D channels, C = 3 D, K taps, N chunks of rows, S = K + 2
sums of a channel: its taps, its shift, its bias; in a kernel R rows and T positions of a tile.
"""

from typing import Any

import torch
from torch import Tensor

from recollect.ops.hyena.triton_long import mix_long, mix_long_back
from recollect.ops.hyena.triton_whole import mix_whole, mix_whole_back
from recollect.ops.long_conv.triton_kernel import POSITIONS
from recollect.ops.triton_rows import sum_blocks


def mix(
    parts_PCBL: Tensor, bias_PC: Tensor, taps_PKC: Tensor, shift_PC: Tensor, filter_PDL: Tensor
) -> Tensor:
    """Return y_PDBL from adjacent x1, x2 and v; differentiable in everything."""
    return _Mix.apply(parts_PCBL, bias_PC, taps_PKC, shift_PC, filter_PDL)


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        parts, bias, taps, shift, filter = tensors = [x.contiguous() for x in inputs]
        if not _fits(parts):
            ctx.save_for_backward(*tensors)
            return mix_long(parts, bias, taps, shift, filter)
        y_PDBL, u_PDBL = mix_whole(parts, bias, taps, shift, filter)
        ctx.save_for_backward(*tensors, u_PDBL)
        return y_PDBL

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        back: Any = mix_whole_back if _fits(ctx.saved_tensors[0]) else mix_long_back
        dparts, dfilter, shares_PNSC = back(*ctx.saved_tensors, grads[0].contiguous())
        population, _, sums, channels = shares_PNSC.shape
        sums_PSC = sum_blocks(shares_PNSC.flatten(2)).view(population, sums, channels)
        dtaps_PKC, *others = (part.contiguous() for part in sums_PSC.split((sums - 2, 1, 1), dim=1))
        dshift_PC, dbias_PC = (x_P1C.squeeze(1) for x_P1C in others)
        return dparts, dbias_PC, dtaps_PKC, dshift_PC, dfilter


def _fits(parts_PCBL: Tensor) -> bool:
    """Whether two programs with tiles of whole sequences and matrices fit on a multiprocessor."""
    return parts_PCBL.shape[3] <= POSITIONS and parts_PCBL.dtype == torch.bfloat16
