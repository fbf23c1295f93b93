"""The head's scores as one product, and PyTorch's cross-entropy of them."""

import torch
import torch.nn.functional as F
from torch import Tensor


def head_loss(x_PMD: Tensor, table_PVD: Tensor, labels_M: Tensor, ignore: int) -> Tensor:
    return _loss(torch.bmm(x_PMD, table_PVD.transpose(1, 2)), labels_M, ignore)


def head_verdict(
    x_PMD: Tensor, table_PVD: Tensor, labels_M: Tensor, ignore: int
) -> tuple[Tensor, Tensor]:
    scores_PMV = torch.bmm(x_PMD, table_PVD.transpose(1, 2))
    return _loss(scores_PMV, labels_M, ignore), scores_PMV.argmax(-1) == labels_M


def _loss(scores_PMV: Tensor, labels_M: Tensor, ignore: int) -> Tensor:
    population, labels, _ = scores_PMV.shape
    labels_PM = labels_M.expand(population, labels)  # no change if each member has its own
    loss = F.cross_entropy(
        scores_PMV.flatten(0, 1), labels_PM.flatten(), ignore_index=ignore, reduction="none"
    )
    return loss.view(population, labels)
