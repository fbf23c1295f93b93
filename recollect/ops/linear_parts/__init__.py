"""One projection whose columns are several quantities: a gate and values, values and step sizes.

    [y_1, y_2, ...] = x W

Shapes: P population, I inputs, O outputs of all parts together.
"""

from collections.abc import Sequence

from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.linear import linear


def linear_parts(x: Tensor, weight_PIO: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """Return the parts, (P, ..., size) each.

    On a GPU each part is a separate product: the kernels that follow get dense rows, and no pass
    over memory is needed to join the gradients of the parts.
    """
    if use_triton(x):
        return tuple(linear(x, part) for part in weight_PIO.split(list(sizes), dim=2))
    return linear(x, weight_PIO).split(list(sizes), dim=-1)
