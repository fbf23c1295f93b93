"""Dropout whose mask is a function: element n of member p is kept if the random number at counter n
of the member's stream says so (ops/randomness.py). The same elements are dropped by every form, on
every device, and by a kernel that asks for a few of them alone.

Shapes: P population, B batch, H heads, K queries that are asked for, L length.
"""

from typing import NamedTuple

from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.dropout import plain


class Mask(NamedTuple):
    """Which elements are dropped."""

    stream_P: Tensor  # int64
    share: float  # of elements that are dropped; the others are divided by 1 - share


def drop(x: Tensor, mask: Mask) -> Tensor:
    """x (P, ...) with its share dropped; counters are the places within a member."""
    if use_triton(x):
        from recollect.ops.dropout import triton_kernel

        return triton_kernel.drop(x, *mask)
    return plain.drop(x, *mask)


def drop_queries(weights_PBHKL: Tensor, mask: Mask, where_BK: Tensor) -> Tensor:
    """Some rows of a square: query k of a row has the counters of the query that stands at
    where_BK[b, k] among all L.
    """
    return plain.drop_queries(weights_PBHKL, *mask, where_BK)
