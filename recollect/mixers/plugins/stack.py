"""Plain modules behind the population contract.

Parameters and buffers are stacked along P. On a GPU all members are computed at once by
torch.func.vmap where that gives what the loop over members gives; else, and on a CPU, where it
gains nothing (docs/decisions/plugins-by-vmap.md), the module is called once per member with that
member's slices. What a module draws while it trains is a function of the member's seed, the step
and the layer: the same alone, in any company, and after a resume.
"""

import inspect
import warnings
from abc import abstractmethod
from typing import Any, Self

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call, vmap

from recollect.mixers.base import Mixer, Site
from recollect.mixers.options import MixerSpec
from recollect.mixers.plugins.register import REGISTERED
from recollect.model.layers import Kind, stacked_tensors
from recollect.ops import randomness

CHECKED_ROWS = 2  # of a batch, by which the two ways are compared
# Of the largest value; products in tf32 lie this far apart, mistakes of a rule much farther.
AGREEMENT = 1e-2


class WrongShapeError(TypeError):
    """The output of a module has not the shape of its input."""


class ModuleStack(Mixer):
    """P copies of a plain module behind the population contract."""

    recordable = False

    def __init__(self, spec: MixerSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        self._together: bool | None = None  # whether by vmap; found out at the first forward pass
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
        return self._at_once(x_PBLD) if self.is_at_once(x_PBLD) else self._in_turn(x_PBLD)

    def is_at_once(self, x_PBLD: Tensor) -> bool:
        """Whether vmap computes all members of such an input together."""
        if self._together is None:
            self._together = x_PBLD.is_cuda and self._agrees(x_PBLD)
        return self._together

    def _at_once(self, x_PBLD: Tensor) -> Tensor:
        tensors = self._own_tensors()
        output: Tensor = vmap(self._member)(tensors, x_PBLD)
        return output

    def _in_turn(self, x_PBLD: Tensor) -> Tensor:
        # unbind, not indexing: its backward writes each gradient once instead of P full-sized
        # tensors.
        slices = {name: value.unbind() for name, value in self._own_tensors().items()}
        outputs = []
        with torch.random.fork_rng(devices=[x_PBLD.device] if x_PBLD.is_cuda else []):
            for p, x_BLD in enumerate(x_PBLD.unbind()):
                torch.manual_seed(self._noise_seed(p))
                outputs.append(
                    self._member({name: value[p] for name, value in slices.items()}, x_BLD)
                )
        return torch.stack(outputs)

    def _own_tensors(self) -> dict[str, Tensor]:
        """Stacked, by the names that the module itself has for them."""
        own = stacked_tensors(self)
        return {name: own[_flat(name)] for name in _tensors(self._template[0])}

    def _noise_seed(self, p: int) -> int:
        """Of what member p draws in this step; outside training always the same."""
        noise = self.site.noise
        if noise is None or not noise.seeds or not self.training:
            return randomness.key("module", self.site.layer)
        return randomness.key("module", self.site.layer, noise.seeds[p], noise.step)

    def _member(self, tensors: dict[str, Tensor], x_BLD: Tensor) -> Tensor:
        y_BLD = self.call(self._template[0], tensors, x_BLD)
        if not isinstance(y_BLD, Tensor) or y_BLD.shape != x_BLD.shape:
            got = tuple(y_BLD.shape) if isinstance(y_BLD, Tensor) else type(y_BLD).__name__
            raise WrongShapeError(f"forward gives {got} for an input of {tuple(x_BLD.shape)}")
        return y_BLD

    def _agrees(self, x_PBLD: Tensor) -> bool:
        """Whether vmap works, and gives the outputs, gradients and buffers of the loop. A warning
        counts as not working: it says that vmap loops, slowly, inside.
        """
        # Not in the precision of an autocast, whose rounding would hide what is looked for.
        dtype = torch.float64 if x_PBLD.dtype == torch.float64 else torch.float32
        x_PBLD = x_PBLD[:, :CHECKED_ROWS].detach().to(dtype, copy=True).requires_grad_()
        before = {name: value.detach().clone() for name, value in self._own_tensors().items()}
        inputs = [x_PBLD, *(value for value in self.parameters() if value.requires_grad)]

        def observe(way: Any) -> list[Tensor]:
            with torch.enable_grad(), torch.autocast(x_PBLD.device.type, enabled=False):
                y_PBLD = way(x_PBLD)
                gradients = torch.autograd.grad(y_PBLD.square().sum(), inputs, allow_unused=True)
            found = [y_PBLD, *gradients, *self.buffers()]
            with torch.no_grad():
                copies = [torch.zeros(()) if one is None else one.clone() for one in found]
                for name, value in self._own_tensors().items():
                    value.copy_(before[name])
            return copies

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = observe(self._at_once)
        except Exception:  # whatever code from outside does under vmap, the loop is there
            return False
        return all(
            one.shape == other.shape
            and bool((one - other).abs().max() <= AGREEMENT * other.abs().max().clamp(min=1e-6))
            for one, other in zip(found, observe(self._in_turn), strict=True)
            if one.numel()
        )

    def state_size(self) -> int | None:
        """What the module says of itself, if it says anything."""
        own = getattr(self._template[0], "state_size", None)
        return int(own(self.site.length)) if callable(own) else None

    def operations_per_token(self) -> int:
        return sum(
            value[0].numel() for value in self.parameters()
        )  # each weight is used about once per token


class PluginMixer(ModuleStack):
    """A registered plain module."""

    def construct(self) -> nn.Module:
        module = REGISTERED[self.spec.own_name].module
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
