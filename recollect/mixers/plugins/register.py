"""Mixers from outside: any plain nn.Module that maps (B, L, D) -> (B, L, D), or a Mixer.

    @recollect.mixer("mine")
    class Mine(nn.Module):
        def __init__(self, width: int, heads: int = 4): ...
        def forward(self, x): ...  # (B, L, D) -> (B, L, D), causal

`width` is given, and `length` if the signature has it; all other arguments become options. A mixer
written for populations is registered with its options: `@recollect.mixer(MineSpec)`.
The digest of the defining file is part of the options, so a changed mixer is another run and never
meets stale results.
"""

import hashlib
import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, create_model
from torch import nn

from recollect.errors import SpecError
from recollect.mixers.base import Mixer
from recollect.mixers.options import MixerSpec
from recollect.mixers.registry import MIXERS
from recollect.spec.base import shorten

REGISTERED: dict[str, type[nn.Module]] = {}
_OPTION_TYPES = (bool, int, float, str)


class PluginSpec(MixerSpec):
    """Base of the options made from a plain module's signature."""

    summary: ClassVar[str] = "plugin"
    foreign: ClassVar[bool] = True
    source: str


_RESERVED = frozenset(dir(PluginSpec)) | PluginSpec.model_fields.keys()


def mixer(name: str | type[MixerSpec]) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Class decorator: register a plain module under a name,
    or a Mixer under the name in its options.
    """

    def register(module: type[nn.Module]) -> type[nn.Module]:
        if isinstance(name, str):
            options = _signature_options(name, module)
        elif issubclass(module, Mixer):
            options = _own_options(name, module)
        else:
            raise SpecError(
                f"mixer {module.__name__}: only a recollect.mixers.Mixer takes a class of "
                "options; give a plain module a name"
            )
        key = options.model_fields["name"].default
        if key in MIXERS and key not in REGISTERED:
            raise SpecError(
                f"mixer {shorten(key)}: the name of a built-in mixer; choose another one"
            )
        MIXERS[key] = options
        REGISTERED[key] = module
        return module

    return register


def _own_options(options: type[MixerSpec], module: type[nn.Module]) -> type[MixerSpec]:
    """The class of options with the digest of its file among the fields."""
    name = options.model_fields["name"].default
    if not isinstance(name, str) or not name.isidentifier():
        raise SpecError(
            f"mixer {module.__name__}: {options.__name__} must say its name, "
            "a plain "
            "word of letters, digits and _; "
            f'for example name: Literal["my_mixer"] = "my_mixer"'
        )
    made = create_model(options.__name__, __base__=options, source=_source(module))
    made.foreign = True
    return made


def _source(module: type[nn.Module]) -> Any:
    digest = _digest(module)
    return (Annotated[str, AfterValidator(_same_as(digest))], digest)


def _signature_options(name: str, module: type[nn.Module]) -> type[MixerSpec]:
    if not name.isidentifier():
        raise SpecError(
            f"mixer {shorten(name)}: must be a plain name of letters, digits and _; for example "
            "my_mixer"
        )
    fields: dict[str, Any] = {"name": (Literal[name], name), "source": _source(module)}
    parameters = list(inspect.signature(module).parameters.values())
    if not any(parameter.name == "width" for parameter in parameters):
        raise SpecError(
            f"mixer {name}: {module.__name__}.__init__ must take `width`; for example def "
            "__init__(self, width)"
        )
    for parameter in parameters:
        if parameter.name in ("width", "length"):
            continue
        default = parameter.default
        if parameter.name in _RESERVED:
            raise SpecError(
                f"mixer {name}: option {parameter.name} has a name that means something else "
                "here; rename it"
            )
        if type(default) not in _OPTION_TYPES:
            raise SpecError(
                f"mixer {name}: option {parameter.name} needs a default that is a number, "
                "true/false or a text"
            )
        fields[parameter.name] = (type(default), default)
    return create_model(f"{name}_options", __base__=PluginSpec, **fields)


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
                f"{source} is another version of the plugin than {digest} here; bring that file "
                "back, or sweep anew"
            )
        return source

    return check
