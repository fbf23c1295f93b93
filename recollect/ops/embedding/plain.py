"""PyTorch's look-up in one table of all members, the ids of member p shifted by p V."""

import torch
import torch.nn.functional as F
from torch import Tensor


def embedding(table_PVD: Tensor, ids_BL: Tensor) -> Tensor:
    population, entries, width = table_PVD.shape
    offsets_P = torch.arange(population, device=ids_BL.device) * entries
    return F.embedding(
        ids_BL + offsets_P[:, None, None], table_PVD.view(population * entries, width)
    )
