"""Depthwise causal convolution over time with a few taps, per member: y_t = bias + sum_k weight_k x_{t-(K-1)+k}.

Shapes: P population, B batch, L length, D channels, K taps; the last tap sees the present.

A handful of multiply-adds on shifted views, in place. Left to autograd, each tap would cost a full-length tensor of zeros and
three products in the backward pass.
"""

from typing import Any

import torch
from torch import Tensor


def short_conv(x_PBLD: Tensor, weight_PKD: Tensor, bias_PD: Tensor) -> Tensor:
    """Differentiable in all three arguments."""
    return _ShortConv.apply(x_PBLD, weight_PKD, bias_PD)


class _ShortConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        y_PBLD = bias[:, None, None].expand_as(x).contiguous()
        for k, late, early in _taps(weight, x):
            y_PBLD[:, :, late].addcmul_(x[:, :, early], weight[:, k, None, None])
        return y_PBLD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (dy,) = grads
        x, weight = ctx.saved_tensors
        dx, dweight = torch.zeros_like(x), torch.zeros_like(weight)
        for k, late, early in _taps(weight, x):
            dx[:, :, early].addcmul_(dy[:, :, late], weight[:, k, None, None])
            dweight[:, k] = (dy[:, :, late] * x[:, :, early]).sum((1, 2))
        return dx, dweight, dy.sum((1, 2))


def _taps(weight_PKD: Tensor, x_PBLD: Tensor) -> list[tuple[int, slice, slice]]:
    """For each tap that reaches into the sequence: its number, the outputs it adds to, the inputs it reads."""
    taps, length = weight_PKD.shape[1], x_PBLD.shape[2]
    shifts = [(k, taps - 1 - k) for k in range(taps) if taps - 1 - k < length]
    return [(k, slice(shift, length), slice(0, length - shift)) for k, shift in shifts]
