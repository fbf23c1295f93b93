"""Depthwise convolution over time with a few taps, per member:
y_t = bias + sum_k weight_k x_{t+ahead-(K-1)+k}.

Shapes: P population, B batch, L length, D channels, K taps. With ahead = 0 the last tap sees the
present, and no tap sees the future. SiLU may follow: a separate operation in the plain form, part
of the kernel on a GPU.
"""

from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.short_conv import plain
from recollect.ops.short_conv.plain import Activation


def short_conv(
    x_PBLD: Tensor,
    weight_PKD: Tensor,
    bias_PD: Tensor | None,
    ahead: int = 0,
    activation: Activation | None = None,
) -> Tensor:
    """Return y_PBLD; differentiable in all tensors."""
    if use_triton(x_PBLD) and 0 <= ahead < weight_PKD.shape[1]:
        from recollect.ops.short_conv import triton_kernel

        return triton_kernel.short_conv(x_PBLD, weight_PKD, bias_PD, ahead, activation)
    return plain.short_conv(x_PBLD, weight_PKD, bias_PD, ahead, activation)
