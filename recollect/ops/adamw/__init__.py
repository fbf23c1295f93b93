"""One update of AdamW for one stacked parameter, every member with its own rate,
weight decay and clipping.

    first  += (1 - beta1) (g - first)            g = gradient * shrink
    second  = beta2 second + (1 - beta2) g^2
    parameter = parameter * keep - step * first / (sqrt(second) / root + eps)

Numbers that change from step to step are tensors, so that a recorded step reads new ones at every
replay. Shapes: P population; `...` is any number of axes.
"""

import torch
from torch import Tensor

from recollect.ops.adamw import plain
from recollect.ops.dispatch import use_triton


@torch.no_grad()
def adamw_(
    parameter: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    *,
    keep_P: Tensor,
    step_P: Tensor,
    root: Tensor,
    shrink_P: Tensor | None,
    beta1: float,
    beta2: float,
    eps: float,
) -> None:
    """Update `parameter`, `first` and `second`, all (P, ...), in place; `gradient` is not changed.

    At step t = 1, 2, ... keep = 1 - rate * weight decay, step = rate / (1 - beta1^t), and `root` =
    sqrt(1 - beta2^t), a tensor without axes. `shrink_P` is the factor by which clipping multiplies
    the gradient.
    """
    update = plain.adamw_
    if use_triton(parameter, gradient):
        from recollect.ops.adamw import triton_kernel

        update = triton_kernel.adamw_
    update(
        parameter,
        gradient,
        first,
        second,
        keep_P=keep_P,
        step_P=step_P,
        root=root,
        shrink_P=shrink_P,
        beta1=beta1,
        beta2=beta2,
        eps=eps,
    )
