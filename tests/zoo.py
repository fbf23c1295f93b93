"""Every mixer with every option worth testing, found in the registry:
a new mixer or option is here by being registered.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args, get_origin

import torch
from torch import Tensor

from recollect.mixers.base import Mixer, Site
from recollect.mixers.build import build_mixer
from recollect.mixers.options import MixerSpec, Positions
from recollect.mixers.registry import MIXERS
from recollect.model.layers import Noise, initialise

M = TypeVar("M", bound=Mixer)
LENGTH = 37  # no multiple of anything a kernel likes
WIDTH = 12
DEPTH = 2
SEEDS = [11, 22, 33, 44]


def fitting(name: str, width: int) -> dict[str, Any]:
    """What a small width needs because the default is made for larger ones."""
    return MIXERS[name].small_options(width)


def table(name: str, width: int) -> dict[str, Any]:
    """A mixer as a specification would write it for this width."""
    return {"name": name, **fitting(name, width)}


# The mixers that are not made of others.
SINGLE = sorted(
    name
    for name, options in MIXERS.items()
    if len(options.model_validate({"name": name}).kinds()) == 1
)


@dataclass(frozen=True)
class Case:
    """One mixer with options, at a place with positions, in the first or a later layer."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    positions: Positions = "none"
    layer: int = 0

    @property
    def id(self) -> str:
        options = [
            f"{key}={value}"
            for key, value in self.options.items()
            if fitting(self.name, WIDTH).get(key) != value
        ]
        place = [self.positions] * (self.positions != "none") + [f"layer{self.layer}"] * bool(
            self.layer
        )
        return "-".join([self.name, *options, *place])

    def spec(self) -> MixerSpec:
        return MIXERS[self.name].model_validate({"name": self.name, **self.options})

    def build(
        self,
        population: int = 3,
        width: int = WIDTH,
        length: int = LENGTH,
        dtype: torch.dtype = torch.float32,
        depth: int = DEPTH,
        dropout: float = 0.0,
    ) -> Mixer:
        site = Site(
            population,
            width,
            length,
            depth,
            self.positions,
            layer=self.layer,
            dropout=dropout,
            noise=Noise(population),
        )
        mixer = build_mixer(self.spec(), site)
        initialise(mixer, SEEDS[:population])
        return mixer.to(dtype)


def build_as(
    kind: type[M],
    name: str,
    width: int = WIDTH,
    dtype: torch.dtype = torch.float64,
    population: int = 3,
    length: int = LENGTH,
    **options: Any,
) -> M:
    """A mixer with these options, as its own class."""
    mixer = Case(name, options).build(population, width, length, dtype)
    assert isinstance(mixer, kind)
    return mixer


def _cases() -> list[Case]:
    found = []
    for name in SINGLE:
        fits, spec = fitting(name, WIDTH), MIXERS[name]
        found += [Case(name, fits), Case(name, fits, layer=1)]
        found += [Case(name, fits, positions) for positions in spec.positions_inside]
        for option, info in spec.model_fields.items():
            found += [
                Case(name, {**fits, option: value})
                for value in _others(option, info.annotation, info.default, info.metadata)
            ]
        found += [Case(name, {**fits, **options}) for options in spec.option_combinations]
    return found


def _others(option: str, annotation: Any, default: Any, rules: list[Any]) -> list[Any]:
    """The values of an option beside its default: all of a choice, two heads, no convolution."""
    if option == "name":
        return []
    if get_origin(annotation) is Literal:
        return [value for value in get_args(annotation) if value != default]
    if annotation is bool:
        return [not default]
    if option == "heads":
        return [2]
    # A convolution that can be left out has 0 as its least number of taps.
    return (
        [0] if option == "kernel" and any(getattr(rule, "ge", None) == 0 for rule in rules) else []
    )


CASES = _cases()


def inputs(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def spread(mixer: Mixer) -> Mixer:
    """Weights of order one on everything that starts at zero or tiny, so that every path carries
    signal in a comparison.
    """
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter += 0.1 * torch.randn(
                parameter.shape, generator=generator, dtype=parameter.dtype
            )
    return mixer
