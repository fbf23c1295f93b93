"""Look-up of ids in one table per member; the ids are shared by all members, or each has its own.

Shapes: P population, V entries, D width, B batch, L length.
"""

import torch
from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.embedding import plain


def embedding(table_PVD: Tensor, ids_BL: Tensor) -> Tensor:
    """out[p, b, l] = table[p, ids[b, l]], (P, B, L, D); with ids_PBL table[p, ids[p, b, l]]."""
    if ids_BL.dim() == 3:
        return _own(table_PVD, ids_BL)
    if use_triton(table_PVD):
        from recollect.ops.embedding import triton_kernel

        return triton_kernel.embedding(table_PVD, ids_BL)
    return plain.embedding(table_PVD, ids_BL)


def _own(table_PVD: Tensor, ids_PBL: Tensor) -> Tensor:
    """Look up all rows in one table of all entries, with the ids of member p shifted by p V."""
    population, entries, width = table_PVD.shape
    offsets_P = torch.arange(population, device=ids_PBL.device) * entries
    ids_RL = (ids_PBL + offsets_P[:, None, None]).flatten(0, 1)
    return embedding(table_PVD.reshape(1, population * entries, width), ids_RL).view(
        *ids_PBL.shape, width
    )
