"""A few multiply-adds on shifted views, in place.

With autograd, each tap would cost a full-length tensor of zeros and three products in the backward
pass.
"""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Activation = Literal["silu"]


def short_conv(
    x_PBLD: Tensor,
    weight_PKD: Tensor,
    bias_PD: Tensor | None,
    ahead: int = 0,
    activation: Activation | None = None,
) -> Tensor:
    y_PBLD: Tensor = _ShortConv.apply(x_PBLD, weight_PKD, bias_PD, ahead)
    return y_PBLD if activation is None else F.silu(y_PBLD)


class _ShortConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, ahead: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.ahead, ctx.has_bias = ahead, bias is not None
        y_PBLD = (
            torch.zeros_like(x) if bias is None else bias[:, None, None].expand_as(x).contiguous()
        )
        for k, outputs, inputs in _taps(weight, x, ahead):
            y_PBLD[:, :, outputs].addcmul_(x[:, :, inputs], weight[:, k, None, None])
        return y_PBLD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = grads
        x, weight = ctx.saved_tensors
        dx, dweight = torch.zeros_like(x), torch.zeros_like(weight)
        for k, outputs, inputs in _taps(weight, x, ctx.ahead):
            dx[:, :, inputs].addcmul_(dy[:, :, outputs], weight[:, k, None, None])
            dweight[:, k] = (dy[:, :, outputs] * x[:, :, inputs]).sum((1, 2))
        return dx, dweight, dy.sum((1, 2)) if ctx.has_bias else None, None


def _taps(weight_PKD: Tensor, x_PBLD: Tensor, ahead: int) -> list[tuple[int, slice, slice]]:
    """Return for each tap that reaches into the sequence its index, the outputs it adds to, and the
    inputs it reads.
    """
    taps, length = weight_PKD.shape[1], x_PBLD.shape[2]
    delays = [(k, taps - 1 - k - ahead) for k in range(taps)]
    return [
        (
            k,
            slice(max(0, delay), length + min(0, delay)),
            slice(max(0, -delay), length - max(0, delay)),
        )
        for k, delay in delays
        if abs(delay) < length
    ]
