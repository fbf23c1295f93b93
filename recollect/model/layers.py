"""The few layers that carry the population axis: every parameter is P stacked parameters, every
product a batched one.

Shapes: P population (always first), B batch, L length, D width, K taps; `...` is any number of axes
in between. With P = 1 these are the plain layers. No operation reduces over P, so a member never
sees its neighbours.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from recollect.ops import randomness
from recollect.ops.embedding import embedding
from recollect.ops.norm import NormKind, add_norm, keep_norm, norm
from recollect.ops.short_conv import short_conv

# How one member's weight is drawn: (shape, generator) -> values.
Init = Callable[[tuple[int, ...], Generator], Tensor]


def zeros(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.zeros(shape)


def normal(std: float) -> Init:
    return lambda shape, generator: torch.randn(shape, generator=generator) * std


def uniform(bound: float) -> Init:
    return lambda shape, generator: (torch.rand(shape, generator=generator) * 2 - 1) * bound


def fan_in_uniform(fan_in: int, gain: float = 1.0) -> Init:
    """PyTorch's default for Linear and Conv1d: U(-1/sqrt(fan_in), 1/sqrt(fan_in))."""
    return uniform(gain / math.sqrt(fan_in))


def log_uniform_step(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """The bias of a state space's step size: its softplus is log-uniform in [0.001, 0.1], a memory
    of 10 to 1000 positions.
    """
    low, high = 1e-3, 1e-1
    step = (torch.rand(shape, generator=generator) * math.log(high / low) + math.log(low)).exp()
    return step + torch.log(-torch.expm1(-step))


# What a parameter is for, which decides whether weight decay spares it (train.exempt). "dynamics":
# decay rates, step sizes and direct paths, for which zero is no neutral value.
Kind = Literal["weight", "bias", "norm", "dynamics"]


class Layer(nn.Module, ABC):
    """A module whose own parameters all have the population as their first axis."""

    kinds: Mapping[
        str, Kind
    ] = {}  # of this module's own parameters; one that is not listed is a weight

    @abstractmethod
    def draw(self, generator: Generator) -> dict[str, Tensor]:
        """One member's initial values for this module's own parameters (children draw theirs)."""


def stacked_tensors(module: nn.Module) -> dict[str, Tensor]:
    """What a module itself stacks along P: parameters and persistent buffers (a table that all
    share is not persistent).
    """
    return dict(module.named_parameters(recurse=False)) | {
        name: value
        for name, value in module.named_buffers(recurse=False)
        if name not in module._non_persistent_buffers_set
    }


def parameter_kinds(model: nn.Module) -> dict[str, Kind]:
    """The kind of every parameter by its full name."""
    return {
        f"{path}.{name}".lstrip("."): module.kinds.get(name, "weight")
        if isinstance(module, Layer)
        else "weight"
        for path, module in model.named_modules()
        for name, _ in module.named_parameters(recurse=False)
    }


def initialise(model: nn.Module, seeds: list[int]) -> None:
    """Draw member p from `seeds[p]` alone, on the CPU: the same weights in every population and on
    every device.
    """
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
                raise TypeError(
                    f"{type(layer).__name__}.draw gives {sorted(values)}, but it "
                    "stacks "
                    f"{sorted(own)}"
                )
            for name, members in values.items():
                own[name].copy_(torch.stack(members))


class Branch(NamedTuple):
    """What half a block adds to its input: value + shift[p].

    A product leaves its bias to the kernel that reads it next.
    """

    value: Tensor  # (P, ..., D)
    shift_PD: Tensor | None = None


class Linear(Layer):
    """x @ weight[p] + bias[p]."""

    def __init__(
        self,
        population: int,
        inputs: int,
        outputs: int,
        *,
        init: Init,
        bias: bool = True,
        bias_init: Init | None = None,
        bias_kind: Kind = "bias",
    ):
        super().__init__()
        self.init, self.bias_init = init, bias_init
        self.kinds = {"bias": bias_kind}
        self.weight = nn.Parameter(torch.empty(population, inputs, outputs))
        self.bias = nn.Parameter(torch.empty(population, outputs)) if bias else None

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        values = {"weight": self.init(tuple(self.weight.shape[1:]), generator)}
        if self.bias is not None:
            shape = tuple(self.bias.shape[1:])
            values["bias"] = (
                self.bias_init(shape, generator) if self.bias_init else torch.zeros(shape)
            )
        return values

    def forward(self, x: Tensor) -> Tensor:
        flat_PMO = (
            self.product(x)
            if self.bias is None
            else torch.baddbmm(self.bias[:, None], self._flat(x), self.weight)
        )
        return flat_PMO.view(*x.shape[:-1], self.weight.shape[2])

    def columns(self, x: Tensor, first: int, last: int) -> Tensor:
        """Only the outputs from `first` up to `last`."""
        flat_PMI, weight_PIO = self._flat(x), self.weight[:, :, first:last]
        if self.bias is None:
            flat_PMO = torch.bmm(flat_PMI, weight_PIO)
        else:
            flat_PMO = torch.baddbmm(self.bias[:, None, first:last], flat_PMI, weight_PIO)
        return flat_PMO.view(*x.shape[:-1], last - first)

    def product(self, x: Tensor) -> Tensor:
        """x @ weight[p] without the bias, all axes in between as one: (P, M, outputs)."""
        return torch.bmm(self._flat(x), self.weight)

    def _flat(self, x: Tensor) -> Tensor:
        population, inputs, _ = self.weight.shape
        return x.reshape(population, -1, inputs)


class Embedding(Layer):
    """One table per member, looked up with ids that all members share."""

    def __init__(self, population: int, entries: int, width: int, *, std: float = 0.02):
        super().__init__()
        self.std = std
        self.weight = nn.Parameter(torch.empty(population, entries, width))

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {"weight": normal(self.std)(tuple(self.weight.shape[1:]), generator)}

    def forward(self, ids_BL: Tensor) -> Tensor:
        return embedding(self.weight, ids_BL)

    def logits(self, x_PMD: Tensor) -> Tensor:
        """The tied head: scores of every entry, (P, M, entries)."""
        return torch.bmm(x_PMD, self.weight.transpose(1, 2))


class Norm(Layer):
    """Base of the norms over the last axis; each then scales, and may shift, per member."""

    kinds: Mapping[str, Kind] = {"weight": "norm", "bias": "norm"}
    kind: NormKind

    def __init__(self, population: int, width: int, eps: float = 1e-5, *, bias: bool):
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
        """x + branch, if there is one, and the norm of it."""
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


class ShortConv(Layer):
    """Depthwise convolution over time: y_t = bias + sum_k weight[k] * x_{t+ahead-K+1+k}; causal
    with ahead = 0.
    """

    kinds: Mapping[str, Kind] = {"bias": "bias"}

    def __init__(
        self, population: int, width: int, taps: int, *, bias: bool = True, ahead: int = 0
    ):
        super().__init__()
        self.ahead = ahead
        self.weight = nn.Parameter(torch.empty(population, taps, width))
        self.bias = nn.Parameter(torch.empty(population, width)) if bias else None

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        taps, width = self.weight.shape[1:]
        init = fan_in_uniform(
            taps
        )  # PyTorch's Conv1d default; a depthwise kernel's fan-in is its number of taps
        values = {"weight": init((taps, width), generator)}
        return values if self.bias is None else values | {"bias": init((width,), generator)}

    def forward(self, x_PBLD: Tensor, silu: bool = False) -> Tensor:
        """With `silu` the activation follows, as part of the operation."""
        return short_conv(x_PBLD, self.weight, self.bias, self.ahead, "silu" if silu else None)

    def start(self, batch: int) -> Tensor:
        """The last K - 1 inputs before the first one: zeros, (P, B, K - 1, D)."""
        population, taps, width = self.weight.shape
        return self.weight.new_zeros(population, batch, taps - 1, width)

    def step(self, x_PBD: Tensor, past_PBKD: Tensor) -> tuple[Tensor, Tensor]:
        """The output at one more position, and what to remember for the next."""
        window_PBKD = torch.cat((past_PBKD, x_PBD[:, :, None]), dim=2)
        y_PBD = (window_PBKD * self.weight[:, None]).sum(2)
        return y_PBD if self.bias is None else y_PBD + self.bias[:, None], window_PBKD[:, :, 1:]


class Noise(nn.Module):
    """Where dropout's masks come from: one number per member, made from its seed and the step."""

    def __init__(self, population: int):
        super().__init__()
        self.register_buffer(
            "stream_P", torch.zeros(population, dtype=torch.int64), persistent=False
        )

    def set(self, seeds_P: Tensor, step: int) -> None:
        self.get_buffer("stream_P").copy_(randomness.bits(randomness.key("dropout", step), seeds_P))


class Dropout(nn.Module):
    """Zero a share of the elements while training, and scale up the rest.

    A mask is a function of the member's seed, the step and the place in the model, so a run drops
    the same elements alone, in any company, and after a resume.
    """

    def __init__(self, share: float, noise: Noise, place: str):
        super().__init__()
        self.share, self.noise, self.place = share, noise, randomness.key("dropout", place)

    def forward(self, x: Tensor) -> Tensor:
        """`x` is (P, B, ...): the rows come first, so that padding rows behind them change no other
        mask.
        """
        if not self.training or self.share == 0:
            return x
        stream = self.noise.get_buffer("stream_P") + self.place
        counters = torch.arange(x[0].numel(), device=x.device).view(1, *x.shape[1:])
        uniform = randomness.uniform(along_first(stream, x), counters)
        return x * (uniform >= self.share) / (1 - self.share)


def token_shift(x_PBLD: Tensor) -> Tensor:
    """Every position gets what stood before it; the first one zeros."""
    return F.pad(x_PBLD, (0, 0, 1, 0))[:, :, :-1]


def along_first(values_P: Tensor, like: Tensor) -> Tensor:
    """(P,) shaped so that it meets the first axis of `like`."""
    return values_P.view(-1, *[1] * (like.dim() - 1))
