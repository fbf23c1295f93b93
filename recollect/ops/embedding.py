"""Look-up of ids that all members share in one table per member.

Shapes: P population, V entries, D width, B batch, L length.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.dispatch import use_triton


def embedding(table_PVD: Tensor, ids_BL: Tensor) -> Tensor:
    """out[p, b, l] = table[p, ids[b, l]], (P, B, L, D)."""
    if use_triton(table_PVD):
        from recollect.ops import embedding_triton

        return embedding_triton.embedding(table_PVD, ids_BL)
    population, entries, width = table_PVD.shape
    offsets_P = torch.arange(population, device=ids_BL.device) * entries
    return F.embedding(
        ids_BL + offsets_P[:, None, None], table_PVD.view(population * entries, width)
    )
