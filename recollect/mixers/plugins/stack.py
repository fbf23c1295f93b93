"""Plain modules behind the population contract.

Parameters and buffers are stacked along P; the forward pass calls the module once per member with
that member's slices.
"""

import inspect
from abc import abstractmethod
from typing import Any, Self

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call

from recollect.mixers.base import Mixer, Site
from recollect.mixers.options import MixerSpec
from recollect.mixers.plugins.register import REGISTERED
from recollect.model.layers import Kind, stacked_tensors


class ModuleStack(Mixer):
    """P copies of a plain module behind the population contract."""

    recordable = False

    def __init__(self, spec: MixerSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        template = self._seeded(0)
        self._template = (
            template,
        )  # in a tuple, so that its tensors are not registered a second time
        for name, value in _tensors(template).items():
            stacked = torch.empty(site.population, *value.shape, dtype=value.dtype)
            if isinstance(value, nn.Parameter):
                self.register_parameter(
                    _flat(name), nn.Parameter(stacked, requires_grad=value.requires_grad)
                )
            else:
                self.register_buffer(_flat(name), stacked)
        self.kinds = {
            _flat(name): _kind(name, value) for name, value in template.named_parameters()
        }

    @abstractmethod
    def construct(self) -> nn.Module:
        """One member, drawn from the global generator as plain modules do."""

    def call(self, module: nn.Module, tensors: dict[str, Tensor], x_BLD: Tensor) -> Any:
        """The module's output with these tensors in place of its own."""
        return functional_call(module, tensors, (x_BLD,))

    def _seeded(self, seed: int) -> nn.Module:
        # Lend the module a global generator that starts from the member's seed, and put the old one
        # back.
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.manual_seed(seed)
            return self.construct()

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        seed = int(torch.randint(2**62, (), generator=generator))
        return {_flat(name): value.detach() for name, value in _tensors(self._seeded(seed)).items()}

    def train(self, mode: bool = True) -> Self:
        self._template[0].train(mode)
        return super().train(mode)

    def forward(self, x_PBLD: Tensor) -> Tensor:
        # unbind, not indexing: its backward writes each gradient once instead of P full-sized
        # tensors.
        slices = {name: value.unbind() for name, value in stacked_tensors(self).items()}
        names = [(name, _flat(name)) for name in _tensors(self._template[0])]
        outputs = []
        for p, x_BLD in enumerate(x_PBLD.unbind()):
            y_BLD = self.call(
                self._template[0], {name: slices[flat][p] for name, flat in names}, x_BLD
            )
            if not isinstance(y_BLD, Tensor) or y_BLD.shape != x_BLD.shape:
                got = tuple(y_BLD.shape) if isinstance(y_BLD, Tensor) else type(y_BLD).__name__
                raise TypeError(
                    f"mixer {self.spec.name}: forward gave {got} for an input of "
                    f"{tuple(x_BLD.shape)}; it must keep the shape"
                )
            outputs.append(y_BLD)
        return torch.stack(outputs)

    def state_size(self) -> None:
        return None

    def operations_per_token(self) -> int:
        return sum(
            value[0].numel() for value in self.parameters()
        )  # each weight is used about once per token


class PluginMixer(ModuleStack):
    """A registered plain module."""

    def construct(self) -> nn.Module:
        module = REGISTERED[self.spec.name]
        options = self.spec.model_dump(exclude={"name", "source"})
        wanted = {"width": self.site.width, "length": self.site.length}
        given = {
            name: value
            for name, value in wanted.items()
            if name in inspect.signature(module).parameters
        }
        return module(**given, **options)


def _kind(name: str, value: Tensor) -> Kind:
    """By the conventions of plain modules: the mark that state-space layers put on their dynamics,
    and the name of a bias.
    """
    if getattr(value, "_no_weight_decay", False):
        return "dynamics"
    return "bias" if name.split(".")[-1] == "bias" else "weight"


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return dict(module.named_parameters()) | dict(module.named_buffers())


def _flat(name: str) -> str:
    """A dotted name as one that a module may register, and that is no attribute of it already."""
    return "own/" + name.replace(".", "/")
