"""Softmax attention in PyTorch's operations, and the biases of its scores."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.dropout import Mask, drop, drop_queries
from recollect.ops.layout import split_heads
from recollect.ops.linear import linear


def distances(queries: int, keys: int, device: torch.device) -> Tensor:
    """Return how many positions key j is behind query i, (L, T); negative in the future."""
    positions_T = torch.arange(keys, device=device)
    return positions_T[keys - queries :, None] - positions_T


def alibi_slopes(heads: int) -> list[float]:
    """Return the slopes m_h of ALiBi (Press et al. 2022): 2^(-8h/H), h = 1..H, if H is a power of
    two.

    Otherwise those of the next smaller power of two N, then every second one of 2N as far as
    needed.
    """
    power = 2 ** (heads.bit_length() - 1)
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2 ** (-4 * h / power) for h in range(1, 2 * power, 2)]
    return slopes + between[: heads - power]


def alibi(distance: Tensor, heads: int, dtype: torch.dtype) -> Tensor:
    """Return the bias -m_h (i - j) for a table of distances, (1, H, *its shape)."""
    slopes_H = torch.tensor(alibi_slopes(heads), dtype=dtype, device=distance.device)
    return -slopes_H.view(1, heads, *[1] * distance.dim()) * distance


def attention_weights(q_PBHLD: Tensor, k_PBHTD: Tensor, bias_PBHLT: Tensor) -> Tensor:
    """Return the softmax, (P, B, H, L, T); every query must see a key.

    The axes P, B and H of the bias may be 1.
    """
    scores_PBHLT = q_PBHLD @ k_PBHTD.transpose(-1, -2) / math.sqrt(q_PBHLD.shape[-1])
    return (scores_PBHLT + bias_PBHLT).softmax(-1)


def attention(
    q_PBHLD: Tensor,
    k_PBHLD: Tensor,
    v_PBHLD: Tensor,
    bias_1HLL: Tensor | None,
    mask: Mask | None,
) -> Tensor:
    """Use PyTorch's fused operation, which stores no scores, unless there is dropout: its masks
    would differ from ours.
    """
    if mask is not None:
        if bias_1HLL is None:
            length = q_PBHLD.shape[-2]
            future_LL = distances(length, length, q_PBHLD.device) < 0
            bias_1HLL = q_PBHLD.new_zeros(1, 1, length, length).masked_fill(future_LL, -math.inf)
        weights_PBHLL = attention_weights(q_PBHLD, k_PBHLD, bias_1HLL[:, None])
        return drop(weights_PBHLL, mask) @ v_PBHLD
    q_MHLD, k_MHLD, v_MHLD = (x.flatten(0, 1) for x in (q_PBHLD, k_PBHLD, v_PBHLD))
    y_MHLD = F.scaled_dot_product_attention(
        q_MHLD, k_MHLD, v_MHLD, attn_mask=bias_1HLL, is_causal=bias_1HLL is None
    )
    return y_MHLD.view_as(v_PBHLD)


def attention_at(
    q_PBHKD: Tensor,
    k_PBHLD: Tensor,
    v_PBHLD: Tensor,
    where_BK: Tensor,
    bias_PHBKL: Tensor | None,
    mask: Mask | None,
) -> Tensor:
    if bias_PHBKL is None:
        future_BKL = where_BK[:, :, None] < torch.arange(k_PBHLD.shape[-2], device=where_BK.device)
        bias_PHBKL = q_PBHKD.new_zeros(1, 1, *future_BKL.shape).masked_fill(future_BKL, -math.inf)
    weights_PBHKL = attention_weights(q_PBHKD, k_PBHLD, bias_PHBKL.transpose(1, 2))
    return (
        weights_PBHKL if mask is None else drop_queries(weights_PBHKL, mask, where_BK)
    ) @ v_PBHLD


def project(
    x_PBLW: Tensor, weight_PWC: Tensor, bias_PC: Tensor, parts: int, heads: int
) -> list[Tensor]:
    """Return `parts` of q, k and v, each (P, B, H, L, D); C = parts H D."""
    product_PBLC = linear(x_PBLW, weight_PWC, bias_PC)
    return [split_heads(part_PBLE, heads) for part_PBLE in product_PBLC.chunk(parts, dim=-1)]
