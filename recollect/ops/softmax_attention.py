"""Softmax attention without its parameters: y_i = sum_j softmax_j(q_i . k_j / sqrt(D) + bias_ij)
v_j.

Shapes: P population, B batch, H heads, L queries, T keys, D channels of a head. The last query
stands at the last key, so one query over T keys is the newest of T positions. A bias is (P or 1, H
or 1, L, T); -inf hides a key from a query.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.dispatch import use_triton


def distances(queries: int, keys: int, device: torch.device) -> Tensor:
    """How many positions key j lies behind query i, (L, T); negative in the future."""
    positions_T = torch.arange(keys, device=device)
    return positions_T[keys - queries :, None] - positions_T


def alibi_slopes(heads: int) -> list[float]:
    """The slopes m_h of ALiBi (Press et al. 2022): 2^(-8h/H), h = 1..H, if H is a power of two.

    Otherwise those of the next smaller power of two N, then every second one of 2N as far as
    needed.
    """
    power = 2 ** (heads.bit_length() - 1)
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2 ** (-4 * h / power) for h in range(1, 2 * power, 2)]
    return slopes + between[: heads - power]


def alibi(distance: Tensor, heads: int, dtype: torch.dtype) -> Tensor:
    """The bias -m_h (i - j) of a table of distances, (1, H, *its shape)."""
    slopes_H = torch.tensor(alibi_slopes(heads), dtype=dtype, device=distance.device)
    return -slopes_H.view(1, heads, *[1] * distance.dim()) * distance


def attention_weights(q_PBHLD: Tensor, k_PBHTD: Tensor, bias_PBHLT: Tensor) -> Tensor:
    """The softmax, (P, B, H, L, T); every query must see a key.

    P and B of the bias may be 1, and H.
    """
    scores_PBHLT = q_PBHLD @ k_PBHTD.transpose(-1, -2) / math.sqrt(q_PBHLD.shape[-1])
    return (scores_PBHLT + bias_PBHLT).softmax(-1)


def attention_at(
    q_PBHKD: Tensor, k_PBHLD: Tensor, v_PBHLD: Tensor, where_BK: Tensor, bias_PHBKL: Tensor | None
) -> Tensor:
    """y_PBHKD of queries that stand at the positions `where`; without a bias all they do not see is
    the future.
    """
    if bias_PHBKL is None and has_kernel(k_PBHLD, *k_PBHLD.shape[-2:]):
        from recollect.ops import softmax_attention_triton

        return softmax_attention_triton.causal_attention(q_PBHKD, k_PBHLD, v_PBHLD, where_BK)
    if bias_PHBKL is None:
        future_BKL = where_BK[:, :, None] < torch.arange(k_PBHLD.shape[-2], device=where_BK.device)
        bias_PHBKL = q_PBHKD.new_zeros(1, 1, *future_BKL.shape).masked_fill(future_BKL, -math.inf)
    return attention_weights(q_PBHKD, k_PBHLD, bias_PHBKL.transpose(1, 2)) @ v_PBHLD


def has_kernel(like: Tensor, length: int, width: int) -> bool:
    """Whether there is a kernel that holds a whole sequence of a head of this width."""
    if not use_triton(like):
        return False
    from recollect.ops import softmax_attention_triton

    return softmax_attention_triton.fits(length, width)


def fused_attention(
    q_PBHLD: Tensor, k_PBHLD: Tensor, v_PBHLD: Tensor, bias_1HLL: Tensor | None
) -> Tensor:
    """y of a kernel that keeps no scores; without a bias it hides the future.

    All members share the bias.
    """
    if bias_1HLL is None and has_kernel(q_PBHLD, *q_PBHLD.shape[-2:]):
        from recollect.ops import softmax_attention_triton

        return softmax_attention_triton.causal_attention(q_PBHLD, k_PBHLD, v_PBHLD)
    q_MHLD, k_MHLD, v_MHLD = (x.flatten(0, 1) for x in (q_PBHLD, k_PBHLD, v_PBHLD))
    y_MHLD = F.scaled_dot_product_attention(
        q_MHLD, k_MHLD, v_MHLD, attn_mask=bias_1HLL, is_causal=bias_1HLL is None
    )
    return y_MHLD.view_as(v_PBHLD)
