"""Mixers from outside: any plain nn.Module that maps (B, L, D) -> (B, L, D) becomes one that carries a population.

    @recollect.mixer("mine")
    class Mine(nn.Module):
        def __init__(self, width: int, heads: int = 4): ...     # `width`, and `length` if it asks for it; the rest are options
        def forward(self, x): ...                               # (B, L, D) -> (B, L, D), causal

Its parameters and buffers are stacked along P; the forward pass calls the module once per member with that member's slices.
A mixer written for populations, as those beside this file are, is registered with its options: `@recollect.mixer(MineSpec)`.
The digest of the defining file is part of the options, so a changed mixer is another run and never meets stale results.
"""

import hashlib
import inspect
import sys
from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from pydantic import AfterValidator, create_model
from torch import Generator, Tensor, nn
from torch.func import functional_call

from recollect.errors import SpecError
from recollect.mixers.base import Mixer, Site
from recollect.nn import Kind, stacked_tensors
from recollect.spec.base import shorten
from recollect.spec.mixers import MIXERS, MixerSpec

FOREIGN: dict[str, type[nn.Module]] = {}
_OPTION_TYPES = (bool, int, float, str)


class ForeignSpec(MixerSpec):
    """Base of the options made from a foreign module's signature."""

    summary: ClassVar[str] = "plugin"
    source: str


_RESERVED = frozenset(dir(ForeignSpec)) | ForeignSpec.model_fields.keys()


def mixer(name: str | type[MixerSpec]) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Class decorator: register a plain module under a name, or a Mixer under the name in its options."""

    def register(module: type[nn.Module]) -> type[nn.Module]:
        if isinstance(name, str):
            options = _signature_options(name, module)
        elif issubclass(module, Mixer):
            options = _own_options(name, module)
        else:
            raise SpecError(
                f"mixer {module.__name__}: only a recollect.mixers.Mixer takes a class of options; give a plain module a name"
            )
        key = options.model_fields["name"].default
        if key in MIXERS and key not in FOREIGN:
            raise SpecError(f"mixer {shorten(key)}: the name of a built-in mixer; choose another one")
        MIXERS[key] = options
        FOREIGN[key] = module
        return module

    return register


def _own_options(options: type[MixerSpec], module: type[nn.Module]) -> type[MixerSpec]:
    """The class of options with the digest of its file among the fields."""
    name = options.model_fields["name"].default
    if not isinstance(name, str) or not name.isidentifier():
        raise SpecError(
            f"mixer {module.__name__}: {options.__name__} must say its name, a plain word of letters, digits and _; "
            f'for example name: Literal["my_mixer"] = "my_mixer"'
        )
    return create_model(options.__name__, __base__=options, source=_source(module))


def _source(module: type[nn.Module]) -> Any:
    digest = _digest(module)
    return (Annotated[str, AfterValidator(_same_as(digest))], digest)


def _signature_options(name: str, module: type[nn.Module]) -> type[MixerSpec]:
    if not name.isidentifier():
        raise SpecError(f"mixer {shorten(name)}: must be a plain name of letters, digits and _; for example my_mixer")
    fields: dict[str, Any] = {"name": (Literal[name], name), "source": _source(module)}
    parameters = list(inspect.signature(module).parameters.values())
    if not any(parameter.name == "width" for parameter in parameters):
        raise SpecError(f"mixer {name}: {module.__name__}.__init__ must take `width`; for example def __init__(self, width)")
    for parameter in parameters:
        if parameter.name in ("width", "length"):
            continue
        default = parameter.default
        if parameter.name in _RESERVED:
            raise SpecError(f"mixer {name}: option {parameter.name} has a name that means something else here; rename it")
        if type(default) not in _OPTION_TYPES:
            raise SpecError(f"mixer {name}: option {parameter.name} needs a default that is a number, true/false or a text")
        fields[parameter.name] = (type(default), default)
    return create_model(f"{name}_options", __base__=ForeignSpec, **fields)


def _digest(module: type[nn.Module]) -> str:
    """Of the whole file the module is defined in: helpers beside it change the mixer too."""
    try:
        text = inspect.getsource(sys.modules[module.__module__])
    except (OSError, TypeError, KeyError):
        text = module.__qualname__  # typed at a prompt: there is no text to look at
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _same_as(digest: str) -> Callable[[str], str]:
    def check(source: str) -> str:
        if source != digest:
            raise ValueError(
                f"{source} is another version of the plugin than {digest} here; bring that file back, or sweep anew"
            )
        return source

    return check


class ModuleStack(Mixer):
    """P copies of a plain module behind the population contract."""

    def __init__(self, spec: MixerSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        template = self._seeded(0)
        self._template = (template,)  # in a tuple, so that its tensors are not registered a second time
        for name, value in _tensors(template).items():
            stacked = torch.empty(site.population, *value.shape, dtype=value.dtype)
            if isinstance(value, nn.Parameter):
                self.register_parameter(_flat(name), nn.Parameter(stacked, requires_grad=value.requires_grad))
            else:
                self.register_buffer(_flat(name), stacked)
        self.kinds = {_flat(name): _kind(name, value) for name, value in template.named_parameters()}

    @abstractmethod
    def construct(self) -> nn.Module:
        """One member, drawn from the global generator as plain modules do."""

    def call(self, module: nn.Module, tensors: dict[str, Tensor], x_BLD: Tensor) -> Any:
        """The module's output with these tensors in place of its own."""
        return functional_call(module, tensors, (x_BLD,))

    def _seeded(self, seed: int) -> nn.Module:
        # Lend the module a global generator that starts from the member's seed, and put the old one back.
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
        # unbind, not indexing: its backward writes each gradient once instead of P full-sized tensors.
        slices = {name: value.unbind() for name, value in stacked_tensors(self).items()}
        names = [(name, _flat(name)) for name in _tensors(self._template[0])]
        outputs = []
        for p, x_BLD in enumerate(x_PBLD.unbind()):
            y_BLD = self.call(self._template[0], {name: slices[flat][p] for name, flat in names}, x_BLD)
            if not isinstance(y_BLD, Tensor) or y_BLD.shape != x_BLD.shape:
                got = tuple(y_BLD.shape) if isinstance(y_BLD, Tensor) else type(y_BLD).__name__
                raise TypeError(
                    f"mixer {self.spec.name}: forward gave {got} for an input of {tuple(x_BLD.shape)}; it must keep the shape"
                )
            outputs.append(y_BLD)
        return torch.stack(outputs)

    def state_size(self) -> None:
        return None

    def operations_per_token(self) -> int:
        return sum(value[0].numel() for value in self.parameters())  # each weight is used about once per token


class ForeignMixer(ModuleStack):
    """A registered plain module."""

    def construct(self) -> nn.Module:
        module = FOREIGN[self.spec.name]
        options = self.spec.model_dump(exclude={"name", "source"})
        wanted = {"width": self.site.width, "length": self.site.length}
        given = {name: value for name, value in wanted.items() if name in inspect.signature(module).parameters}
        return module(**given, **options)


def _kind(name: str, value: Tensor) -> Kind:
    """By the conventions of plain modules: the mark that state-space layers put on their dynamics, and the name of a bias."""
    if getattr(value, "_no_weight_decay", False):
        return "dynamics"
    return "bias" if name.split(".")[-1] == "bias" else "weight"


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return dict(module.named_parameters()) | dict(module.named_buffers())


def _flat(name: str) -> str:
    """A dotted name as one that a module may register, and that is no attribute of it already."""
    return "own/" + name.replace(".", "/")
