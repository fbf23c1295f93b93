"""Softmax attention without its parameters:
y_i = sum_j softmax_j(q_i . k_j / sqrt(D) + bias_ij) v_j.

Shapes: P population, B batch, H heads, L queries, T keys, K queries that are asked for, D channels
of a head, W width of the model. The last query stands at the last key, so one query over T keys is
the newest of T positions. A bias is (P or 1, H or 1, L, T); -inf hides a key from a query.
"""

from torch import Tensor

from recollect.ops.dispatch import use_triton
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
    q_PBHLD: Tensor, k_PBHLD: Tensor, v_PBHLD: Tensor, bias_1HLL: Tensor | None
) -> Tensor:
    """y_PBHLD; without a bias all that a query does not see is the future.

    All members share the bias.
    """
    if bias_1HLL is None and _has_kernel(q_PBHLD, *q_PBHLD.shape[-2:]):
        from recollect.ops.softmax_attention import triton_kernel

        return triton_kernel.causal_attention(q_PBHLD, k_PBHLD, v_PBHLD)
    return plain.attention(q_PBHLD, k_PBHLD, v_PBHLD, bias_1HLL)


def attention_at(
    q_PBHKD: Tensor, k_PBHLD: Tensor, v_PBHLD: Tensor, where_BK: Tensor, bias_PHBKL: Tensor | None
) -> Tensor:
    """y_PBHKD of queries that stand at the positions `where`; without a bias as above."""
    if bias_PHBKL is None and _has_kernel(k_PBHLD, *k_PBHLD.shape[-2:]):
        from recollect.ops.softmax_attention import triton_kernel

        return triton_kernel.causal_attention(q_PBHKD, k_PBHLD, v_PBHLD, where_BK)
    return plain.attention_at(q_PBHKD, k_PBHLD, v_PBHLD, where_BK, bias_PHBKL)


def projected_attention(x_PBLW: Tensor, weight_PWC: Tensor, bias_PC: Tensor, heads: int) -> Tensor:
    """y_PBHLD of [q, k, v] = x W + b, each with all its heads; C = 3 H D."""
    if _has_kernel(x_PBLW, x_PBLW.shape[2], weight_PWC.shape[2] // 3 // heads):
        from recollect.ops.softmax_attention import triton_kernel

        return triton_kernel.joint_attention(linear(x_PBLW, weight_PWC), bias_PC, heads)
    return plain.projected_attention(x_PBLW, weight_PWC, bias_PC, heads)


def projected_attention_at(
    x_PBLW: Tensor, weight_PWC: Tensor, bias_PC: Tensor, heads: int, where_BK: Tensor
) -> Tensor:
    """The same for the queries at the positions `where` alone, y_PBHKD."""
    width = weight_PWC.shape[2] // 3
    if _has_kernel(x_PBLW, x_PBLW.shape[2], width // heads):
        from recollect.ops.softmax_attention import triton_kernel

        q_PBHKD = plain.project_queries(x_PBLW, weight_PWC, bias_PC, heads, where_BK)
        product_PBLC = linear(x_PBLW, weight_PWC[:, :, width:])
        return triton_kernel.joint_attention_at(
            q_PBHKD, product_PBLC, bias_PC[:, width:], heads, where_BK
        )
    return plain.projected_attention_at(x_PBLW, weight_PWC, bias_PC, heads, where_BK)


def _has_kernel(like: Tensor, length: int, width: int) -> bool:
    """Whether there is a kernel that holds a whole sequence of a head of this width."""
    if not use_triton(like):
        return False
    from recollect.ops.softmax_attention import triton_kernel

    return triton_kernel.fits(length, width)
