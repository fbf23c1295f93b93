"""The few layers that carry the population axis: every parameter is P stacked parameters, every product a batched one.

Shapes: P population (always first), B batch, L length, D width, K taps; `...` is any number of axes in between.
With P = 1 these are the plain layers. No operation reduces over P, so a member never sees its neighbours.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from recollect.ops.short_conv import short_conv

# How one member's weight is drawn: (shape, generator) -> values.
Init = Callable[[tuple[int, ...], Generator], Tensor]


def normal(std: float) -> Init:
    return lambda shape, generator: torch.randn(shape, generator=generator) * std


def uniform(bound: float) -> Init:
    return lambda shape, generator: (torch.rand(shape, generator=generator) * 2 - 1) * bound


def fan_in_uniform(fan_in: int, gain: float = 1.0) -> Init:
    """PyTorch's default for Linear and Conv1d: U(-1/sqrt(fan_in), 1/sqrt(fan_in))."""
    return uniform(gain / math.sqrt(fan_in))


class Layer(nn.Module, ABC):
    """A module whose own parameters all have the population as their first axis."""

    @abstractmethod
    def draw(self, generator: Generator) -> dict[str, Tensor]:
        """One member's initial values for this module's own parameters (children draw theirs)."""


def stacked_tensors(module: nn.Module) -> dict[str, Tensor]:
    """What a module itself stacks along P: parameters and persistent buffers (a table that all share is not persistent)."""
    return dict(module.named_parameters(recurse=False)) | {
        name: value for name, value in module.named_buffers(recurse=False) if name not in module._non_persistent_buffers_set
    }


def initialise(model: nn.Module, seeds: list[int]) -> None:
    """Draw member p from `seeds[p]` alone, on the CPU: the same weights in every population and on every device."""
    layers = [module for module in model.modules() if isinstance(module, Layer)]
    drawn: list[dict[str, list[Tensor]]] = [{} for _ in layers]
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        for layer, values in zip(layers, drawn, strict=True):
            for name, value in layer.draw(generator).items():
                values.setdefault(name, []).append(value)
    with torch.no_grad():
        for layer, values in zip(layers, drawn, strict=True):
            own = stacked_tensors(layer)
            if own.keys() != values.keys():
                raise TypeError(f"{type(layer).__name__}.draw gives {sorted(values)}, but it stacks {sorted(own)}")
            for name, members in values.items():
                own[name].copy_(torch.stack(members))


class Linear(Layer):
    """x @ weight[p] + bias[p]."""

    def __init__(
        self, population: int, inputs: int, outputs: int, *, init: Init, bias: bool = True, bias_init: Init | None = None
    ):
        super().__init__()
        self.init, self.bias_init = init, bias_init
        self.weight = nn.Parameter(torch.empty(population, inputs, outputs))
        self.bias = nn.Parameter(torch.empty(population, outputs)) if bias else None

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        values = {"weight": self.init(tuple(self.weight.shape[1:]), generator)}
        if self.bias is not None:
            shape = tuple(self.bias.shape[1:])
            values["bias"] = self.bias_init(shape, generator) if self.bias_init else torch.zeros(shape)
        return values

    def forward(self, x: Tensor) -> Tensor:
        population, inputs, outputs = self.weight.shape
        flat_PMI = x.reshape(population, -1, inputs)
        if self.bias is None:
            flat_PMO = torch.bmm(flat_PMI, self.weight)
        else:
            flat_PMO = torch.baddbmm(self.bias[:, None], flat_PMI, self.weight)
        return flat_PMO.view(*x.shape[:-1], outputs)


class Embedding(Layer):
    """One table per member, looked up with ids that all members share."""

    def __init__(self, population: int, entries: int, width: int, *, std: float = 0.02):
        super().__init__()
        self.std = std
        self.weight = nn.Parameter(torch.empty(population, entries, width))

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {"weight": normal(self.std)(tuple(self.weight.shape[1:]), generator)}

    def forward(self, ids_BL: Tensor) -> Tensor:
        population, entries, width = self.weight.shape
        offsets_P = torch.arange(population, device=ids_BL.device) * entries
        return F.embedding(ids_BL + offsets_P[:, None, None], self.weight.view(population * entries, width))

    def logits(self, x_PMD: Tensor) -> Tensor:
        """The tied head: scores of every entry, (P, M, entries)."""
        return torch.bmm(x_PMD, self.weight.transpose(1, 2))


class LayerNorm(Layer):
    """Zero mean, unit variance over the width, then scale and shift per member."""

    def __init__(self, population: int, width: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(population, width))
        self.bias = nn.Parameter(torch.empty(population, width))

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        width = self.weight.shape[1]
        return {"weight": torch.ones(width), "bias": torch.zeros(width)}

    def forward(self, x: Tensor) -> Tensor:
        normed = F.layer_norm(x, x.shape[-1:], eps=self.eps)
        return torch.addcmul(_per_member(self.bias, x), normed, _per_member(self.weight, x))


class RMSNorm(Layer):
    """Unit root mean square over the width, then scale per member."""

    def __init__(self, population: int, width: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(population, width))

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {"weight": torch.ones(self.weight.shape[1])}

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], eps=self.eps) * _per_member(self.weight, x)


class ShortConv(Layer):
    """Depthwise causal convolution over time: y_t = bias + sum_k weight[k] * x_{t-K+1+k}. The last tap sees the present."""

    def __init__(self, population: int, width: int, taps: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(population, taps, width))
        self.bias = nn.Parameter(torch.empty(population, width))

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        taps, width = self.weight.shape[1:]
        init = fan_in_uniform(taps)  # PyTorch's Conv1d default; a depthwise kernel's fan-in is its number of taps
        return {"weight": init((taps, width), generator), "bias": init((width,), generator)}

    def forward(self, x_PBLD: Tensor) -> Tensor:
        return short_conv(x_PBLD, self.weight, self.bias)


def _per_member(values_PD: Tensor, like: Tensor) -> Tensor:
    """(P, D) shaped so that it meets the first and last axis of `like`."""
    return values_PD.view(values_PD.shape[0], *[1] * (like.dim() - 2), values_PD.shape[1])
