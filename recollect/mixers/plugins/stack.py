"""Plain modules behind the population contract.

Parameters and buffers are stacked along P. On a GPU all members are computed at once by
torch.func.vmap, if that gives the same result as the loop over members. Otherwise, and on a CPU,
where vmap gains nothing (docs/decisions/plugins-by-vmap.md), the module is called once per member
with that member's slices. The random numbers that a module draws while it trains are a function of
the member's seed, the step and the layer: they are the same alone, in any population, and after a
resume. On a GPU a module that draws nothing and waits for no value is part of the recorded step, if
a trial shows that a recording of it is the same function.
"""

import inspect
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call, vmap

from recollect.mixers.base import Mixer, Site
from recollect.mixers.options import MixerSpec
from recollect.mixers.plugins.register import REGISTERED
from recollect.mixers.plugins.trial import Trial, are_close
from recollect.model.layers import Kind, stacked_tensors
from recollect.ops import randomness
from recollect.ops.recording import beside_the_stream, refusing_to_wait


class WrongShapeError(TypeError):
    """The output of a module does not have the shape of its input."""


class ModuleStack(Mixer):
    """P copies of a plain module behind the population contract."""

    recordable = False  # until a trial has shown that it is

    def __init__(self, spec: MixerSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        # Decided at the first forward pass: whether vmap is used, and whether a member draws random
        # numbers in the loop.
        self._together: bool | None = None
        self._draws = True
        template = self._seeded(0)
        self._template = (
            template,
        )  # a tuple, so that its tensors are not registered a second time
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
        """Return one member, initialised from the global generator as plain modules do."""

    def call(self, module: nn.Module, tensors: dict[str, Tensor], x_BLD: Tensor) -> Any:
        """Return the module's output with these tensors in place of its own."""
        return functional_call(module, tensors, (x_BLD,))

    def _seeded(self, seed: int) -> nn.Module:
        # Seed the global generator with the member's seed for the construction, then restore it.
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
        """Whether vmap computes all members together for such an input."""
        if self._together is None and x_PBLD.is_cuda:
            self._try_out(x_PBLD)
        return bool(self._together)

    def _at_once(self, x_PBLD: Tensor) -> Tensor:
        tensors = self._own_tensors()
        output: Tensor = vmap(self._member)(tensors, x_PBLD)
        return output

    def _in_turn(self, x_PBLD: Tensor) -> Tensor:
        # unbind, not indexing: its backward writes each gradient once instead of P full-sized
        # tensors.
        slices = {name: value.unbind() for name, value in self._own_tensors().items()}
        own = [{name: value[p] for name, value in slices.items()} for p in range(len(x_PBLD))]
        if not self._draws:  # seeds could not be set in a recording
            return torch.stack(list(map(self._member, own, x_PBLD.unbind())))
        outputs = []
        with torch.random.fork_rng(devices=[x_PBLD.device] if x_PBLD.is_cuda else []):
            for p, x_BLD in enumerate(x_PBLD.unbind()):
                torch.manual_seed(self._noise_seed(p))
                outputs.append(self._member(own[p], x_BLD))
        return torch.stack(outputs)

    def _first(self, x_PBLD: Tensor) -> Tensor:
        """The output of the first member alone."""
        own = {name: value[0] for name, value in self._own_tensors().items()}
        return self._member(own, x_PBLD[0])[None]

    def _own_tensors(self) -> dict[str, Tensor]:
        """Return the stacked tensors under the names that the module itself uses."""
        own = stacked_tensors(self)
        return {name: own[_flat(name)] for name in _tensors(self._template[0])}

    def _noise_seed(self, p: int) -> int:
        """Return the seed of what member p draws in this step; outside of training it is fixed."""
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

    # ---- trials with a few rows ----

    def _try_out(self, x_PBLD: Tensor) -> None:
        """Decide in training mode whether vmap is used, and what a recording has to know."""
        was_training = self.training
        self.train()
        self._together = self._agrees(x_PBLD)
        self._draws = not self._together and self._is_drawing(x_PBLD)
        self.recordable = not self._draws and self._records(x_PBLD)
        self.train(was_training)

    def _agrees(self, x_PBLD: Tensor) -> bool:
        """Whether vmap works and gives the outputs, gradients and buffers of the loop. A warning
        counts as failure: it says that vmap falls back to a slow loop inside.
        """
        trial = Trial(self, x_PBLD)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = trial.observe(self._at_once)
        except Exception:  # code from outside may fail in any way; the loop remains
            return False
        return are_close(found, trial.observe(self._in_turn))

    def _is_drawing(self, x_PBLD: Tensor) -> bool:
        """Whether the module advances the device's generator."""
        with torch.random.fork_rng(devices=[x_PBLD.device]):
            torch.cuda.manual_seed(0)
            before = torch.cuda.get_rng_state(x_PBLD.device)
            Trial(self, x_PBLD).observe(self._first)
            after = torch.cuda.get_rng_state(x_PBLD.device)
        return not torch.equal(before, after)

    def _records(self, x_PBLD: Tensor) -> bool:
        """Whether a recording, replayed with other numbers, gives the result of a call."""
        way = self._at_once if self._together else self._in_turn
        with beside_the_stream(x_PBLD.device):
            trial = Trial(self, x_PBLD)
            wanted = trial.observe(way)
            try:
                with refusing_to_wait():
                    trial.observe(way)
                found = trial.replayed(way)
            except Exception:  # code from outside may fail in any way; it can still be called
                return False
            return are_close(found, wanted)

    def constants(self) -> Iterator[Tensor]:
        """Yield tensors that modules keep as plain attributes, such as a mask of the first call."""
        for module in self._template[0].modules():
            for value in vars(module).values():
                yield from _tensors_in(value)

    def state_size(self) -> int | None:
        """Return the module's own `state_size` at this length, or None if it has none."""
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


def _tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors of an attribute: itself, or the entries of a plain container."""
    entries = value.values() if isinstance(value, dict) else value
    several = isinstance(value, dict | list | tuple)
    for entry in entries if several else (value,):
        if isinstance(entry, Tensor):
            yield entry


def _kind(name: str, value: Tensor) -> Kind:
    """Return the kind by the conventions of plain modules: the mark that state-space layers put on
    their dynamics, and the name of a bias.
    """
    if getattr(value, "_no_weight_decay", False):
        return "dynamics"
    return "bias" if name.split(".")[-1] == "bias" else "weight"


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return dict(module.named_parameters()) | dict(module.named_buffers())


def _flat(name: str) -> str:
    """Turn a dotted name into one that a module may register and that is no attribute of it."""
    return "own/" + name.replace(".", "/")
