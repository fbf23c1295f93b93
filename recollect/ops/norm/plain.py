"""Normalisation in PyTorch's operations."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

# "layer": zero mean and unit variance; "rms": unit root mean square
NormKind = Literal["layer", "rms"]


def norm(
    x: Tensor, weight_PD: Tensor, bias_PD: Tensor | None, eps: float, kind: NormKind
) -> Tensor:
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


def add_norm(
    x: Tensor,
    branch: Tensor,
    shift_PD: Tensor | None,
    weight_PD: Tensor,
    bias_PD: Tensor | None,
    eps: float,
    kind: NormKind,
) -> tuple[Tensor, Tensor]:
    total = x + (branch if shift_PD is None else branch + _per_member(shift_PD, branch))
    return total, norm(total, weight_PD, bias_PD, eps, kind)


def _per_member(values_PD: Tensor, like: Tensor) -> Tensor:
    """Return (P, D) shaped to broadcast along the first and last axis of `like`."""
    return values_PD.view(values_PD.shape[0], *[1] * (like.dim() - 2), values_PD.shape[1])
