"""Norms, alone or together with the residual addition before them."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from recollect.model.layers.base import Kind, Layer
from recollect.ops.norm import NormKind, add_norm, keep_norm, norm


class Branch(NamedTuple):
    """The addend that half a block computes for its input: value + shift[p].

    The shift is the bias of a product; the kernel that reads the branch next adds it.
    """

    value: Tensor  # (P, ..., D)
    shift_PD: Tensor | None = None


class Norm(Layer):
    """Base class of norms over the last axis, with a scale and perhaps a shift per member."""

    kinds: Mapping[str, Kind] = {"weight": "norm", "bias": "norm"}
    kind: NormKind

    def __init__(self, population: int, width: int, eps: float, *, bias: bool):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(population, width))
        self.bias = nn.Parameter(torch.empty(population, width)) if bias else None

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        width = self.weight.shape[1]
        values = {"weight": torch.ones(width)}
        return values if self.bias is None else values | {"bias": torch.zeros(width)}

    def forward(self, x: Tensor) -> Tensor:
        return norm(x, self.weight, self.bias, self.eps, self.kind)

    def add(self, x: Tensor, branch: Branch | None) -> tuple[Tensor, Tensor]:
        """Return x + branch (x if there is no branch) and its norm."""
        if branch is None:
            return keep_norm(x, self.weight, self.bias, self.eps, self.kind)
        return add_norm(
            x, branch.value, branch.shift_PD, self.weight, self.bias, self.eps, self.kind
        )


class LayerNorm(Norm):
    """Zero mean, unit variance over the width, then scale and shift per member."""

    kind = "layer"

    def __init__(self, population: int, width: int, eps: float = 1e-5):
        super().__init__(population, width, eps, bias=True)


class RMSNorm(Norm):
    """Unit root mean square over the last axis, then scale per member."""

    kind = "rms"

    def __init__(self, population: int, width: int, eps: float = 1e-5):
        super().__init__(population, width, eps, bias=False)
