"""The tied head and its loss: scores of every entry, their cross-entropy with the label, and
whether the label scored highest.

Shapes: P population, M labelled positions (the labels are shared by all members), D width, V
vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.dispatch import use_triton


def head_loss(x_PMD: Tensor, table_PVD: Tensor, labels_M: Tensor, ignore: int) -> Tensor:
    """Cross-entropy loss_PM of x @ table^T, 0 where the label is `ignore`; differentiable in x and
    the table.
    """
    if use_triton(x_PMD, table_PVD):
        from recollect.ops import head_loss_triton

        return head_loss_triton.head_loss(x_PMD, table_PVD, labels_M, ignore)
    return _loss(torch.bmm(x_PMD, table_PVD.transpose(1, 2)), labels_M, ignore)


@torch.no_grad()
def head_verdict(
    x_PMD: Tensor, table_PVD: Tensor, labels_M: Tensor, ignore: int
) -> tuple[Tensor, Tensor]:
    """The loss once more, and right_PM: the label has the highest score; of equal scores the first
    counts.
    """
    if use_triton(x_PMD, table_PVD):
        from recollect.ops import head_loss_triton

        return head_loss_triton.head_verdict(x_PMD, table_PVD, labels_M, ignore)
    scores_PMV = torch.bmm(x_PMD, table_PVD.transpose(1, 2))
    return _loss(scores_PMV, labels_M, ignore), scores_PMV.argmax(-1) == labels_M


def _loss(scores_PMV: Tensor, labels_M: Tensor, ignore: int) -> Tensor:
    population, labels, _ = scores_PMV.shape
    labels_PM = labels_M.expand(population, labels)
    loss = F.cross_entropy(
        scores_PMV.flatten(0, 1), labels_PM.flatten(), ignore_index=ignore, reduction="none"
    )
    return loss.view(population, labels)
