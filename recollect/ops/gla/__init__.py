"""Scores of queries and keys under a decay of each key channel; equations in plain.py."""

from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.gla import plain


def decayed_scores(q: Tensor, k: Tensor, log_decay: Tensor) -> Tensor:
    """Return (..., L, L) from three (..., L, D), differentiable in all of them; the decay of the
    first position has no effect.
    """
    if use_triton(q, k, log_decay):
        from recollect.ops.gla import triton_kernel

        return triton_kernel.decayed_scores(q, k, log_decay)
    return plain.decayed_scores(q, k, log_decay)
