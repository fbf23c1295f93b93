"""Dropout whose mask is a function: the random number at counter n of member p's stream decides
whether element n is kept (ops/randomness.py). Every form drops the same elements, on every device,
and so does a kernel that computes only a few of them.

Shapes: P population, B batch, H heads, K requested queries, L length.
"""

from typing import NamedTuple

from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.dropout import plain


class Mask(NamedTuple):
    """Which elements are dropped."""

    stream_P: Tensor  # int64
    share: float  # fraction of elements that are dropped; the others are divided by 1 - share


def drop(x: Tensor, mask: Mask) -> Tensor:
    """Return x (P, ...) with dropout; an element's counter is its index within the member."""
    if use_triton(x):
        from recollect.ops.dropout import triton_kernel

        return triton_kernel.drop(x, *mask)
    return plain.drop(x, *mask)


def drop_queries(weights_PBHKL: Tensor, mask: Mask, where_BK: Tensor) -> Tensor:
    """Drop some rows of a square: query k of a row has the counters of the query at position
    where_BK[b, k] among all L.
    """
    return plain.drop_queries(weights_PBHKL, *mask, where_BK)
