"""Normalisation over the last axis with scale and shift per member, alone or together with the
residual addition before it.

Shapes: P population, D width; `...` is any number of axes in between.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.dispatch import use_triton

NormKind = Literal[
    "layer", "rms"
]  # "layer": zero mean and unit variance; "rms": unit root mean square


def norm(
    x: Tensor, weight_PD: Tensor, bias_PD: Tensor | None, eps: float, kind: NormKind
) -> Tensor:
    """normalised(x) * weight[p] + bias[p] for x (P, ..., D), in the dtype of x."""
    if use_triton(x):
        from recollect.ops import norm_triton

        return norm_triton.norm(x, weight_PD, bias_PD, eps, kind)
    normed = (
        F.layer_norm(x, x.shape[-1:], eps=eps)
        if kind == "layer"
        else F.rms_norm(x, x.shape[-1:], eps=eps)
    )
    scale = _per_member(weight_PD, x)
    scaled = (
        normed * scale if bias_PD is None else torch.addcmul(_per_member(bias_PD, x), normed, scale)
    )
    return scaled.to(x.dtype)


def keep_norm(
    x: Tensor, weight_PD: Tensor, bias_PD: Tensor | None, eps: float, kind: NormKind
) -> tuple[Tensor, Tensor]:
    """x and norm(x), for a residual path that reads both: a kernel adds up their gradients in the
    norm's own pass.
    """
    if use_triton(x):
        from recollect.ops import norm_triton

        return norm_triton.keep_norm(x, weight_PD, bias_PD, eps, kind)
    return x, norm(x, weight_PD, bias_PD, eps, kind)


def add_norm(
    x: Tensor,
    branch: Tensor,
    shift_PD: Tensor | None,
    weight_PD: Tensor,
    bias_PD: Tensor | None,
    eps: float,
    kind: NormKind,
) -> tuple[Tensor, Tensor]:
    """The two halves of a residual step, s = x + (branch + shift[p]) and norm(s), for x and branch
    (P, ..., D).
    """
    if use_triton(x, branch):
        from recollect.ops import norm_triton

        return norm_triton.add_norm(x, branch, shift_PD, weight_PD, bias_PD, eps, kind)
    total = x + (branch if shift_PD is None else branch + _per_member(shift_PD, branch))
    return total, norm(total, weight_PD, bias_PD, eps, kind)


def _per_member(values_PD: Tensor, like: Tensor) -> Tensor:
    """(P, D) shaped so that it meets the first and last axis of `like`."""
    return values_PD.view(values_PD.shape[0], *[1] * (like.dim() - 2), values_PD.shape[1])
