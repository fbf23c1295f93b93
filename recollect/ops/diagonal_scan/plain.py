"""The linear recurrence with one decay per channel: h_t = a_t h_{t-1} + x_t from h = 0, plain
PyTorch, sequential in time.

Shapes: P population, B batch, L length, `...` any channels.

The backward is written out: g_t = dy_t + a_{t+1} g_{t+1} is the gradient of h_t, so dx_t = g_t and
da_t = g_t h_{t-1}. It is the same recurrence backwards in time. No logarithm and no quotient of
decays occurs: exact for a = 0, stable for |a| <= 1.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def diagonal_scan(a: Tensor, x: Tensor) -> Tensor:
    """Return all h_t, in the shape (P, B, L, ...) of `a` and `x`, differentiable in both.

    The decay a_0 has no effect.
    """
    return _Scan.apply(a, x)


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor) -> Tensor:
        h = x.clone(memory_format=torch.contiguous_format)
        _accumulate(a.unbind(2)[1:], h.unbind(2))
        ctx.save_for_backward(a, h)
        return h

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        a, h = ctx.saved_tensors
        g = grads[0].clone(memory_format=torch.contiguous_format)
        _accumulate(a.unbind(2)[:0:-1], g.unbind(2)[::-1])
        da = torch.zeros_like(g)
        torch.mul(g[:, :, 1:], h[:, :, :-1], out=da[:, :, 1:])
        return da, g


def _accumulate(decays: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Add to each value, in place, its predecessor times the decay between the two."""
    for decay, before, value in zip(decays, values, values[1:], strict=False):
        value.addcmul_(decay, before)
