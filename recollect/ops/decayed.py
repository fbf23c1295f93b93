"""Scores of queries and keys under one decay per position: what is left at i of what was written at j.

    out[i, j] = scores[i, j] exp(g_{j+1} + ... + g_i) for j <= i,        0 above the diagonal

Shapes: log decays g (..., L) and scores that broadcast to (..., L, L), as those that all heads of a sequence share.
"""

import torch
from torch import Tensor

from recollect.ops.kernels import use_kernel
from recollect.ops.segment_sums import segment_sums


def decayed(scores: Tensor, log_decay: Tensor) -> Tensor:
    """(..., L, L), differentiable in both arguments."""
    if use_kernel(scores, log_decay) and torch.float64 not in (scores.dtype, log_decay.dtype):
        from recollect.ops import decayed_triton

        return decayed_triton.decayed(scores, log_decay)
    return scores * segment_sums(log_decay).exp()
