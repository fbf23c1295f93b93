"""Softmax attention without its parameters:
y_i = sum_j softmax_j(q_i . k_j / sqrt(D) + bias_ij) v_j.

Shapes: P population, B batch, H heads, L queries, T keys, K requested queries, D channels of a
head, W width of the model. The last query is at the position of the last key, so one query over T
keys is the newest of T positions. A bias is (P or 1, H or 1, L, T); -inf hides a key from a query.
"""

from types import ModuleType

import torch
from torch import Tensor

from recollect.ops.channels_first import product_dtype
from recollect.ops.dispatch import shared_memory, use_triton
from recollect.ops.dropout import Mask
from recollect.ops.layout import at_positions
from recollect.ops.linear import linear
from recollect.ops.softmax_attention import plain
from recollect.ops.softmax_attention.plain import alibi, alibi_slopes, attention_weights, distances

__all__ = [
    "alibi",
    "alibi_slopes",
    "attention",
    "attention_at",
    "attention_weights",
    "distances",
    "projected_attention",
    "projected_attention_at",
]


def attention(
    q_PBHLD: Tensor,
    k_PBHLD: Tensor,
    v_PBHLD: Tensor,
    bias_1HLL: Tensor | None,
    mask: Mask | None = None,
) -> Tensor:
    """Return y_PBHLD; without a bias only the future is hidden from a query.

    All members share the bias. The mask drops weights.
    """
    length, width = q_PBHLD.shape[-2:]
    if bias_1HLL is None and (
        kernel := _kernel(q_PBHLD, q_PBHLD.dtype, length, length, width, mask)
    ):
        return kernel.causal_attention(q_PBHLD, k_PBHLD, v_PBHLD, None, mask)
    return plain.attention(q_PBHLD, k_PBHLD, v_PBHLD, bias_1HLL, mask)


def attention_at(
    q_PBHKD: Tensor,
    k_PBHLD: Tensor,
    v_PBHLD: Tensor,
    where_BK: Tensor,
    bias_PHBKL: Tensor | None,
    mask: Mask | None = None,
) -> Tensor:
    """Return y_PBHKD for queries at the positions `where`; without a bias as above."""
    queries, (length, width) = q_PBHKD.shape[-2], k_PBHLD.shape[-2:]
    if bias_PHBKL is None and (
        kernel := _kernel(k_PBHLD, k_PBHLD.dtype, queries, length, width, mask)
    ):
        return kernel.causal_attention(q_PBHKD, k_PBHLD, v_PBHLD, where_BK, mask)
    return plain.attention_at(q_PBHKD, k_PBHLD, v_PBHLD, where_BK, bias_PHBKL, mask)


def projected_attention(
    x_PBLW: Tensor, weight_PWC: Tensor, bias_PC: Tensor, heads: int, mask: Mask | None = None
) -> Tensor:
    """Return y_PBHLD of [q, k, v] = x W + b, each with all its heads; C = 3 H D."""
    length, width = x_PBLW.shape[2], weight_PWC.shape[2] // 3
    dtype = product_dtype(x_PBLW)
    if kernel := _kernel(x_PBLW, dtype, length, length, width // heads, mask):
        return kernel.joint_attention(linear(x_PBLW, weight_PWC), bias_PC, heads, mask)
    q_PBHLD, k_PBHLD, v_PBHLD = plain.project(x_PBLW, weight_PWC, bias_PC, 3, heads)
    return plain.attention(q_PBHLD, k_PBHLD, v_PBHLD, None, mask)


def projected_attention_at(
    x_PBLW: Tensor,
    weight_PWC: Tensor,
    bias_PC: Tensor,
    heads: int,
    where_BK: Tensor,
    mask: Mask | None = None,
) -> Tensor:
    """Return the same only for the queries at the positions `where`, y_PBHKD."""
    width = weight_PWC.shape[2] // 3
    x_PBKW = at_positions(x_PBLW, where_BK)
    (q_PBHKD,) = plain.project(x_PBKW, weight_PWC[:, :, :width], bias_PC[:, :width], 1, heads)
    weight_PWE, bias_PE = weight_PWC[:, :, width:], bias_PC[:, width:]
    queries, length, dtype = where_BK.shape[1], x_PBLW.shape[2], product_dtype(x_PBLW)
    if kernel := _kernel(x_PBLW, dtype, queries, length, width // heads, mask):
        product_PBLE = linear(x_PBLW, weight_PWE)
        return kernel.joint_attention_at(q_PBHKD, product_PBLE, bias_PE, heads, where_BK, mask)
    k_PBHLD, v_PBHLD = plain.project(x_PBLW, weight_PWE, bias_PE, 2, heads)
    return plain.attention_at(q_PBHKD, k_PBHLD, v_PBHLD, where_BK, None, mask)


def _kernel(
    x: Tensor, dtype: torch.dtype, queries: int, length: int, width: int, mask: Mask | None
) -> ModuleType | None:
    """Return the kernel for heads of this width whose queries, keys and values have this dtype, or
    None if PyTorch's own is better.
    """
    if not use_triton(x):
        return None
    from recollect.ops.softmax_attention import tiles, triton_kernel, triton_long

    shared = shared_memory(x)
    if tiles.fits_short(queries, length, width, mask is not None, dtype, shared):
        return triton_kernel
    is_long = mask is not None and tiles.fits_long(width, dtype, shared)
    return triton_long if is_long else None
