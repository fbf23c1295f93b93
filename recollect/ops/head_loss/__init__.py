"""The tied head and its loss: scores of every entry, their cross-entropy with the label, and
whether the label has the highest score.

Shapes: P population, M labelled positions, D width, V vocabulary. The labels are shared by all
members (labels_M), or each has its own (labels_PM).
"""

import torch
from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.head_loss import plain


def head_loss(x_PMD: Tensor, table_PVD: Tensor, labels_M: Tensor, ignore: int) -> Tensor:
    """Return the cross-entropy loss_PM of x @ table^T, 0 where the label is `ignore`;
    differentiable in x and the table.
    """
    if use_triton(x_PMD, table_PVD):
        from recollect.ops.head_loss import triton_kernel

        return triton_kernel.head_loss(x_PMD, table_PVD, labels_M, ignore)
    return plain.head_loss(x_PMD, table_PVD, labels_M, ignore)


@torch.no_grad()
def head_verdict(
    x_PMD: Tensor, table_PVD: Tensor, labels_M: Tensor, ignore: int
) -> tuple[Tensor, Tensor]:
    """Return the same loss, and right_PM: whether the label has the highest score; among equal
    scores the first wins.
    """
    if use_triton(x_PMD, table_PVD):
        from recollect.ops.head_loss import triton_kernel

        return triton_kernel.head_verdict(x_PMD, table_PVD, labels_M, ignore)
    return plain.head_verdict(x_PMD, table_PVD, labels_M, ignore)
