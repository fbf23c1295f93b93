"""Normalisation over the last axis with scale and shift per member, alone or together with the
residual addition before it.

Shapes: P population, D width; `...` is any number of axes in between.
"""

from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.norm import plain
from recollect.ops.norm.plain import NormKind

__all__ = ["NormKind", "add_norm", "keep_norm", "norm"]


def norm(
    x: Tensor, weight_PD: Tensor, bias_PD: Tensor | None, eps: float, kind: NormKind
) -> Tensor:
    """Return normalised(x) * weight[p] + bias[p] for x (P, ..., D), in the dtype of x."""
    if use_triton(x):
        from recollect.ops.norm import triton_kernel

        return triton_kernel.norm(x, weight_PD, bias_PD, eps, kind)
    return plain.norm(x, weight_PD, bias_PD, eps, kind)


def keep_norm(
    x: Tensor, weight_PD: Tensor, bias_PD: Tensor | None, eps: float, kind: NormKind
) -> tuple[Tensor, Tensor]:
    """Return x and norm(x), for a residual path that reads both: a kernel adds up their gradients
    in the norm's own pass.
    """
    if use_triton(x):
        from recollect.ops.norm import triton_kernel

        return triton_kernel.keep_norm(x, weight_PD, bias_PD, eps, kind)
    return x, plain.norm(x, weight_PD, bias_PD, eps, kind)


def add_norm(
    x: Tensor,
    branch: Tensor,
    shift_PD: Tensor | None,
    weight_PD: Tensor,
    bias_PD: Tensor | None,
    eps: float,
    kind: NormKind,
) -> tuple[Tensor, Tensor]:
    """Return both results of a residual step, s = x + (branch + shift[p]) and norm(s), for x and
    branch (P, ..., D).
    """
    if use_triton(x, branch):
        from recollect.ops.norm import triton_kernel

        return triton_kernel.add_norm(x, branch, shift_PD, weight_PD, bias_PD, eps, kind)
    return plain.add_norm(x, branch, shift_PD, weight_PD, bias_PD, eps, kind)
