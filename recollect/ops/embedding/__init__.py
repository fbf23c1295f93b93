"""Look-up of ids that all members share in one table per member.

Shapes: P population, V entries, D width, B batch, L length.
"""

from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.embedding import plain


def embedding(table_PVD: Tensor, ids_BL: Tensor) -> Tensor:
    """out[p, b, l] = table[p, ids[b, l]], (P, B, L, D)."""
    if use_triton(table_PVD):
        from recollect.ops.embedding import triton_kernel

        return triton_kernel.embedding(table_PVD, ids_BL)
    return plain.embedding(table_PVD, ids_BL)
