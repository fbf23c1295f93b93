"""Softmax attention in PyTorch's operations, and the biases of its scores."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.layout import at_positions, split_heads
from recollect.ops.linear import linear


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


def attention(
    q_PBHLD: Tensor, k_PBHLD: Tensor, v_PBHLD: Tensor, bias_1HLL: Tensor | None
) -> Tensor:
    """PyTorch's fused operation, which keeps no scores."""
    q_MHLD, k_MHLD, v_MHLD = (x.flatten(0, 1) for x in (q_PBHLD, k_PBHLD, v_PBHLD))
    y_MHLD = F.scaled_dot_product_attention(
        q_MHLD, k_MHLD, v_MHLD, attn_mask=bias_1HLL, is_causal=bias_1HLL is None
    )
    return y_MHLD.view_as(v_PBHLD)


def attention_at(
    q_PBHKD: Tensor, k_PBHLD: Tensor, v_PBHLD: Tensor, where_BK: Tensor, bias_PHBKL: Tensor | None
) -> Tensor:
    if bias_PHBKL is None:
        future_BKL = where_BK[:, :, None] < torch.arange(k_PBHLD.shape[-2], device=where_BK.device)
        bias_PHBKL = q_PBHKD.new_zeros(1, 1, *future_BKL.shape).masked_fill(future_BKL, -math.inf)
    return attention_weights(q_PBHKD, k_PBHLD, bias_PHBKL.transpose(1, 2)) @ v_PBHLD


def projected_attention(x_PBLW: Tensor, weight_PWC: Tensor, bias_PC: Tensor, heads: int) -> Tensor:
    q_PBHLD, k_PBHLD, v_PBHLD = (
        split_heads(part_PBLE, heads)
        for part_PBLE in linear(x_PBLW, weight_PWC, bias_PC).chunk(3, dim=-1)
    )
    return attention(q_PBHLD, k_PBHLD, v_PBHLD, None)


def projected_attention_at(
    x_PBLW: Tensor, weight_PWC: Tensor, bias_PC: Tensor, heads: int, where_BK: Tensor
) -> Tensor:
    q_PBHKD = project_queries(x_PBLW, weight_PWC, bias_PC, heads, where_BK)
    width = weight_PWC.shape[2] // 3
    keys_values_PBLE = linear(x_PBLW, weight_PWC[:, :, width:], bias_PC[:, width:])
    k_PBHLD, v_PBHLD = (split_heads(part, heads) for part in keys_values_PBLE.chunk(2, dim=-1))
    return attention_at(q_PBHKD, k_PBHLD, v_PBHLD, where_BK, None)


def project_queries(
    x_PBLW: Tensor, weight_PWC: Tensor, bias_PC: Tensor, heads: int, where_BK: Tensor
) -> Tensor:
    """q_PBHKD, of the positions `where` alone."""
    width = weight_PWC.shape[2] // 3
    x_PBKW = at_positions(x_PBLW, where_BK)
    return split_heads(linear(x_PBKW, weight_PWC[:, :, :width], bias_PC[:, :width]), heads)
