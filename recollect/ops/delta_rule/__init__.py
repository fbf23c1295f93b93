"""The delta rule, with or without decay; equations in plain.py."""

from torch import Tensor

from recollect.ops.delta_rule import plain
from recollect.ops.delta_rule.plain import CHUNK, delta_rule, delta_rule_step, unit_heads
from recollect.ops.dispatch import use_triton

__all__ = ["CHUNK", "delta_rule", "delta_rule_step", "unit_delta_rule", "unit_heads"]


def unit_delta_rule(
    qkv_PBLF: Tensor, beta_PBLH: Tensor, g_PBLH: Tensor | None, keys: int, heads: int, eps: float
) -> Tensor:
    """Return o_PBLHE of the rule on queries and keys of length one, from their F = H (2 D + E) raw
    channels; `keys` is D.
    """
    if use_triton(qkv_PBLF, beta_PBLH):
        from recollect.ops.delta_rule import triton_kernel

        return triton_kernel.unit_delta_rule(qkv_PBLF, beta_PBLH, g_PBLH, keys, heads, eps)
    return plain.unit_delta_rule(qkv_PBLF, beta_PBLH, g_PBLH, keys, heads, eps)
