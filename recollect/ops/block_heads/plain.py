"""Block-diagonal projections, and gates of what they give.

    q = c W_q        k = c W_k        v = u W_v        [i, f] = [q, k, v] W_g + b

Shapes: P population, B batch, L length, K positions, E channels, R blocks of O = E / R channels on
the diagonals of W_q, W_k and W_v, H heads of D = E / H channels, F = 3 E channels of q, k and v,
G = 2 H gates.
"""

import math

import torch
from torch import Tensor

from recollect.ops.block_diagonal import block_diagonal
from recollect.ops.linear import linear


def heads_and_gates(
    c: Tensor,
    u: Tensor,
    query_PROO: Tensor,
    key_PROO: Tensor,
    value_PROO: Tensor,
    gate_PFG: Tensor,
    bias_PG: Tensor,
) -> tuple[Tensor, ...]:
    """Return q, k / sqrt(D) and v (P, B, ..., H, D), i and f (P, B, ..., H), from c and u (P, B,
    ..., E).
    """
    q, k, v = (
        block_diagonal(x, weight) for x, weight in ((c, query_PROO), (c, key_PROO), (u, value_PROO))
    )
    i, f = linear(torch.cat((q, k, v), dim=-1), gate_PFG, bias_PG).chunk(2, dim=-1)
    q, k, v = (x.unflatten(-1, (i.shape[-1], -1)) for x in (q, k, v))
    return q, k / math.sqrt(k.shape[-1]), v, i, f
