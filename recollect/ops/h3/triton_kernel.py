"""H3's two convolutions between two products, on tensors whose positions are dense: channel by
channel (P, C, B, L).

    k~_c = shift_c * k_c        y_e = sum_i q_i (filter_h * (k~_i v_e))        (i, e in head h)

A causal convolution of many rows with one filter is a matrix product, rows x Toeplitz matrix, and
that matrix is made on chip from the filter, block by block. With C the convolution and C' its
transpose, and g the gradient of y:

    dq_i = sum_e g_e C(v_e k~_i)           dk~_i = sum_e v_e C'(g_e q_i)
    dv_e = sum_i k~_i C'(q_i g_e)          dk_c = C'(dk~_c)

are all of the form of y, so that one kernel serves them all. A filter's gradient at lag t sums
products of an input at j with an output's gradient at j + t: a product of matrices over the rows,
summed along its diagonals.

Biases of q, k and v are added where they are read. Inputs are float32 or bfloat16 and rounded to
that before each product, sums are float32, as are filters, biases and their gradients.

Shapes: P population, B batch, L length, D channels, H heads, C = 3 D channels of q, k and v, N
chunks of rows; in a kernel R rows and T positions of a tile.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from typing import Any

import torch
from torch import Tensor

from recollect.ops.long_conv.triton_kernel import Part, convolve, filter_gradient


def mix(parts_PCBL: Tensor, bias_PC: Tensor, shift_PDL: Tensor, filter_PHL: Tensor) -> Tensor:
    """Return y_PDBL from adjacent q, k and v; differentiable in everything."""
    return _Mix.apply(parts_PCBL, bias_PC, shift_PDL, filter_PHL)


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, parts: Tensor, bias: Tensor, shift: Tensor, filter: Tensor) -> Tensor:
        parts, bias, shift, filter = (x.contiguous() for x in (parts, bias, shift, filter))
        q, k, v = _parts(parts, bias)
        shifted_PDBL, y_PDBL = (parts.new_empty(q.values_PDBL.shape) for _ in range(2))
        convolve(None, k, None, shift, shifted_PDBL)
        convolve(q, Part(shifted_PDBL), v, filter, y_PDBL)
        ctx.save_for_backward(parts, bias, shift, filter, shifted_PDBL)
        return y_PDBL

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        parts, bias, shift, filter, shifted_PDBL = ctx.saved_tensors
        q, k, v = _parts(parts, bias)
        g, shifted = Part(grads[0].contiguous()), Part(shifted_PDBL)
        dparts = torch.empty_like(parts)
        dq, dk, dv = dparts.chunk(3, dim=1)
        dshifted = torch.empty_like(shifted_PDBL)
        convolve(g, v, shifted, filter, dq)
        convolve(v, g, q, filter, dshifted, back=True)
        convolve(shifted, q, g, filter, dv, back=True)
        convolve(None, Part(dshifted), None, shift, dk, back=True)
        dfilter = filter_gradient(shifted, v, q, g, filter)
        dshift = filter_gradient(k, None, Part(dshifted), None, shift)
        return dparts, dparts.sum((2, 3), dtype=torch.float32), dshift, dfilter


def _parts(parts_PCBL: Tensor, bias_PC: Tensor) -> list[Part]:
    return [
        Part(*both)
        for both in zip(parts_PCBL.chunk(3, dim=1), bias_PC.chunk(3, dim=1), strict=True)
    ]
