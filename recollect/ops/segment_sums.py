"""Sums over all segments of a sequence:
the logarithm of the fraction of position j that a decay leaves at position i.

    s[i, j] = x_{j+1} + ... + x_i for j <= i,        -inf above the diagonal

so that exp(s) is the causal matrix of decays. It is masked before the exponential, so that no
infinity occurs and gradients have no NaN.
"""

import math

import torch
from torch import Tensor


def segment_sums(x: Tensor) -> Tensor:
    """Map (..., L) to (..., L, L), rows i and columns j.

    Differences of running sums lose the digits of short segments late in a long sequence: in
    float32, a decay of e^-1 per step is wrong by 1e-5 after 200 steps. In float64 they do not,
    which is cheaper than a running sum per column.
    """
    running = x.double().cumsum(-1)
    sums = (running[..., :, None] - running[..., None, :]).to(x.dtype)
    length = x.shape[-1]
    future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
    return sums.masked_fill(future, -math.inf)
