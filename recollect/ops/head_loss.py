"""The tied head and its loss: scores of every entry, their cross-entropy with the label, and whether the label scored highest.

Shapes: P population, M labelled positions (the labels are shared by all members), D width, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.kernels import use_kernel


def head_loss(x_PMD: Tensor, table_PVD: Tensor, labels_M: Tensor, ignore: int) -> tuple[Tensor, Tensor | None]:
    """Cross-entropy loss_PM of x @ table^T (0 where the label is `ignore`), and right_PM: the label is the highest score.

    Of equal scores the first counts. While a gradient is recorded right_PM is None: training does not ask, and on a CPU it
    costs a tenth of the loss.
    """
    if use_kernel(x_PMD, table_PVD):
        from recollect.ops import head_loss_triton

        return head_loss_triton.head_loss(x_PMD, table_PVD, labels_M, ignore)
    return loss_of_scores(torch.bmm(x_PMD, table_PVD.transpose(1, 2)), labels_M, ignore)


def loss_of_scores(scores_PMV: Tensor, labels_M: Tensor, ignore: int) -> tuple[Tensor, Tensor | None]:
    """The same from scores that are there already."""
    population, labels, _ = scores_PMV.shape
    labels_PM = labels_M.expand(population, labels)
    loss = F.cross_entropy(scores_PMV.flatten(0, 1), labels_PM.flatten(), ignore_index=ignore, reduction="none")
    right_PM = None if scores_PMV.requires_grad else scores_PMV.argmax(-1) == labels_M
    return loss.view(population, labels), right_PM
