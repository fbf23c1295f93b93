"""Products that turn positions of channels into channels of positions and back, without a
transposing copy either way.

    to_channels:    y_PCM = weight^T x^T          dx = dy^T weight^T         dweight = x^T dy^T
    from_channels:  z_PMO = x^T weight + bias     dx = weight dz^T           dweight = x dz

A matrix product reads and writes either order at the same speed; with autograd, a gradient would
have the order in which the product was written, and be copied. Under autocast the products are in
its dtype.

Shapes: P population, B batch, L length, M = B L rows, D, C, O channels.
"""

from typing import Any

import torch
from torch import Tensor


def to_channels(x_PBLD: Tensor, weight_PDC: Tensor) -> Tensor:
    """Return y_PCBL; differentiable in both."""
    y_PCM: Tensor = _ToChannels.apply(x_PBLD.flatten(1, 2), weight_PDC)
    return y_PCM.view(*y_PCM.shape[:2], *x_PBLD.shape[1:3])


def from_channels(x_PCBL: Tensor, weight_PCO: Tensor, bias_PO: Tensor) -> Tensor:
    """Return z_PBLO; differentiable in all."""
    z_PMO: Tensor = _FromChannels.apply(x_PCBL.flatten(2), weight_PCO, bias_PO)
    return z_PMO.view(z_PMO.shape[0], *x_PCBL.shape[2:], -1)


class _ToChannels(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_PMD: Tensor, weight_PDC: Tensor) -> Tensor:
        dtype = product_dtype(x_PMD)
        x, weight = x_PMD.to(dtype), weight_PDC.to(dtype)
        ctx.save_for_backward(x, weight)
        ctx.dtypes = x_PMD.dtype, weight_PDC.dtype
        return torch.bmm(weight.transpose(1, 2), x.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy_PCM,) = grads
        x, weight = ctx.saved_tensors
        dx_PMD = torch.bmm(dy_PCM.transpose(1, 2), weight.transpose(1, 2))
        dweight_PDC = torch.bmm(x.transpose(1, 2), dy_PCM.transpose(1, 2))
        return dx_PMD.to(ctx.dtypes[0]), dweight_PDC.to(ctx.dtypes[1])


class _FromChannels(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_PCM: Tensor, weight_PCO: Tensor, bias_PO: Tensor) -> Tensor:
        dtype = product_dtype(x_PCM)
        x, weight = x_PCM.to(dtype), weight_PCO.to(dtype)
        ctx.save_for_backward(x, weight)
        ctx.dtypes = x_PCM.dtype, weight_PCO.dtype
        return torch.baddbmm(bias_PO[:, None].to(dtype), x.transpose(1, 2), weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dz_PMO,) = grads
        x, weight = ctx.saved_tensors
        dx_PCM, dweight_PCO = torch.bmm(weight, dz_PMO.transpose(1, 2)), torch.bmm(x, dz_PMO)
        return (
            dx_PCM.to(ctx.dtypes[0]),
            dweight_PCO.to(ctx.dtypes[1]),
            dz_PMO.sum(1, dtype=ctx.dtypes[1]),
        )


def product_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype in which a product with x is computed: autocast's, or x's own."""
    device = x.device.type
    has_autocast = torch.amp.is_autocast_available(device)  # not where there are no data
    is_on = has_autocast and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if is_on else x.dtype
