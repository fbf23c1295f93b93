"""The multilayer perceptron of a block: two linear layers around an exact GELU.

    y = GELU(x W_up + b_up) W_down + b_down

Shapes: P population, D width, H hidden units; `...` is any number of axes in between.
"""

from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.linear import linear
from recollect.ops.mlp import plain


def mlp(
    x: Tensor, up_PDH: Tensor, up_bias_PH: Tensor, down_PHD: Tensor, down_bias_PD: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Return for x (P, ..., D) a value and a shift with y = value + shift[p]; without a shift, y =
    value.

    On a GPU a bias is added by the kernel that reads the product next: the first by GELU, the
    second by the norm that follows.
    """
    if use_triton(x):
        from recollect.ops.mlp import triton_kernel

        x_PMD = x.reshape(x.shape[0], -1, x.shape[-1])
        hidden_PMH = triton_kernel.bias_gelu(linear(x_PMD, up_PDH), up_bias_PH)
        return linear(hidden_PMH, down_PHD).view(x.shape), down_bias_PD
    return plain.mlp(x, up_PDH, up_bias_PH, down_PHD, down_bias_PD), None
