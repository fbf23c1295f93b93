"""Mixers from outside: any plain nn.Module that maps (B, L, D) -> (B, L, D), or a Mixer.

    @recollect.mixer("mine")
    class Mine(nn.Module):
        def __init__(self, width: int, heads: int = 4): ...
        def forward(self, x): ...  # (B, L, D) -> (B, L, D), causal

`width` is given, and `length` if the signature has it; all other arguments become options. A mixer
written for populations is registered with its options: `@recollect.mixer(MineSpec)`. The digest of
its text (identity.py) is among the options. A plain module may say how many floats a step-by-step
decoder would keep of it: a method `state_size(self, length)`.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import AfterValidator, Field, create_model
from torch import nn

from recollect.errors import SpecError
from recollect.mixers.base import Mixer
from recollect.mixers.options import LOOKS_AT, MixerSpec
from recollect.mixers.plugins.identity import LiveSource, Source, source_of
from recollect.mixers.registry import MIXERS
from recollect.spec.base import shorten


@dataclass(frozen=True)
class Registered:
    """A class from outside, and the source of its text."""

    module: type[nn.Module]
    source: Source


REGISTERED: dict[str, Registered] = {}  # by name
_OPTION_TYPES = (bool, int, float, str)


class PluginSpec(MixerSpec):
    """Base of the options made from a plain module's signature."""

    foreign: ClassVar[bool] = True
    source: str


_RESERVED = frozenset(dir(PluginSpec)) | PluginSpec.model_fields.keys()


def mixer(name: str | type[MixerSpec]) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Class decorator: register a plain module under a name, or a Mixer under the name in its
    options.

    A plain module maps (batch, length, width) to the same shape, causally. It is given `width`, and
    `length` if it takes one; its other arguments become options of the mixer. The text of the class
    and of what it uses is part of the identity of its runs: an edited class has runs of its own.

    >>> import recollect
    >>> from torch import nn
    >>> @recollect.mixer("mean_so_far")
    ... class MeanSoFar(nn.Module):
    ...     def __init__(self, width, scale=1.0):
    ...         super().__init__()
    ...         self.out, self.scale = nn.Linear(width, width), scale
    ...
    ...     def forward(self, x):
    ...         count = 1 + nn.functional.pad(x[0, :-1, :1] * 0 + 1, (0, 0, 1, 0)).cumsum(0)
    ...         return self.out(self.scale * x.cumsum(1) / count)
    >>> recollect.RunSpec.parse(
    ...     {
    ...         "task": {"name": "mqar"},
    ...         "train": {"lr": 1e-3},
    ...         "model": {"mixer": {"name": "mean_so_far", "scale": 2.0}, "width": 8},
    ...     }
    ... ).model.mixer.name
    'mean_so_far'
    """

    if not isinstance(name, str) and not _is_class_of(name, MixerSpec):
        raise SpecError(
            f"@recollect.mixer without a name, above {getattr(name, '__name__', name)}; for "
            'example @recollect.mixer("my_mixer")'
        )

    def register(module: type[nn.Module]) -> type[nn.Module]:
        if not _is_class_of(module, nn.Module):
            raise SpecError(
                f"mixer {shorten(str(name))}: {getattr(module, '__name__', module)} is no class of "
                "modules; for example class MyMixer(nn.Module)"
            )
        if isinstance(name, str):
            options = _signature_options(name, module)
        elif issubclass(module, Mixer):
            options = _named_options(name, module)
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
        known = REGISTERED.get(key)
        source = source_of(module, (known.module, known.source) if known else None)
        fields = _identity(key, source)
        made = cast(type[MixerSpec], create_model(options.__name__, __base__=options, **fields))
        made.foreign = True
        made.summary = options.summary or _first_line(module)
        MIXERS[key], REGISTERED[key] = made, Registered(module, source)
        return module

    return register


def _is_class_of(given: object, base: type) -> bool:
    return isinstance(given, type) and issubclass(given, base)


def _named_options(options: type[MixerSpec], module: type[nn.Module]) -> type[MixerSpec]:
    """Return the class of options, which must have a name."""
    name = options.model_fields["name"].default
    if not isinstance(name, str) or not name.isidentifier():
        raise SpecError(
            f"mixer {module.__name__}: {options.__name__} must say its name, "
            "a plain "
            "word of letters, digits and _; "
            f'for example name: Literal["my_mixer"] = "my_mixer"'
        )
    return options


def _identity(name: str, source: Source) -> dict[str, Any]:
    """Return the fields that identify a mixer: its name, alone or with what it looks at, and the
    digest of its text.
    """
    names = (name, *(f"{name}@{seen}" for seen in LOOKS_AT))
    digest: Any = (
        Field(default_factory=source.digest)
        if isinstance(source, LiveSource)
        else Field(default=source.digest())
    )
    return {
        "name": (Literal[names], name),
        "source": (Annotated[str, AfterValidator(_same_as(source))], digest),
    }


def _first_line(module: type[nn.Module]) -> str:
    """Return the first line of the class's own docstring; an inherited one describes another
    class.
    """
    text = inspect.cleandoc(vars(module).get("__doc__") or "")
    return text.splitlines()[0].rstrip(".") if text else "plug-in"


def _signature_options(name: str, module: type[nn.Module]) -> type[MixerSpec]:
    if not name.isidentifier():
        raise SpecError(
            f"mixer {shorten(name)}: must be a plain name of letters, digits and _; for example "
            "my_mixer"
        )
    fields: dict[str, Any] = {"name": (Literal[name], name)}
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


def _same_as(here: Source) -> Callable[[str], str]:
    known = None if isinstance(here, LiveSource) else here.digest()

    def check(source: str) -> str:
        digest = known or here.digest()
        if source != digest:
            raise ValueError(
                f"{source} is another version of the plug-in than {digest} here; bring that file "
                "back, or sweep anew"
            )
        return source

    return check
