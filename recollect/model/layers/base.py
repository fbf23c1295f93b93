"""The base of all layers: parameters stacked along the population, their kinds and their draws."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Generator, Tensor, nn

# The role of a parameter, which decides whether it is exempt from weight decay (train.exempt).
# "dynamics": decay rates, step sizes and direct paths, for which zero is not a neutral value.
Kind = Literal["weight", "bias", "norm", "dynamics"]


class Layer(nn.Module, ABC):
    """A module whose own parameters all have the population as their first axis."""

    # Kinds of this module's own parameters; a parameter that is not listed is a weight.
    kinds: Mapping[str, Kind] = {}

    @abstractmethod
    def draw(self, generator: Generator) -> dict[str, Tensor]:
        """One member's initial values for this module's own parameters (children draw theirs)."""


def stacked_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Tensors that a module itself stacks along P: parameters and persistent buffers.

    A table that all members share is not a persistent buffer.
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
    """Draw the weights of each member p from `seeds[p]` alone, on the CPU.

    So they are the same in every population and on every device.
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
                    f"{type(layer).__name__}.draw gives {sorted(values)}, "
                    f"but it stacks {sorted(own)}"
                )
            for name, members in values.items():
                own[name].copy_(torch.stack(members))
