"""How a specification names a mixer: by name, as a table with options, or as a list by layer."""

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationError, model_validator

from recollect.mixers.fla.options import PREFIX, FlaSpec, installed_version
from recollect.mixers.options import Core, Family, MixerSpec, Positions
from recollect.mixers.registry import MIXERS
from recollect.spec.base import NestedError, by_name, explain, shorten

MOST_LAYERS = 1000

_choose_registered = by_name(MIXERS, "mixer", hint=" (one of a plugin needs --plugin FILE.py)")


def choose_single(raw: Any) -> Any:
    """The options that a name, or a table with a name, stands for."""
    table = {"name": raw} if isinstance(raw, str) else raw
    if not isinstance(table, dict) or not str(table.get("name")).startswith(PREFIX):
        return _choose_registered(raw)
    version = table.get("version") or installed_version(shorten(table["name"]))
    try:
        return FlaSpec.model_validate(table | {"version": version})
    except ValidationError as error:
        raise NestedError(explain(error, FlaSpec)) from None


_AnySingle = Annotated[SerializeAsAny[MixerSpec], BeforeValidator(choose_single)]


class HybridSpec(MixerSpec):
    """Layer i has entry i of the list, counted round and round;
    the name is made of the entries' names.
    """

    name: str
    layers: Annotated[tuple[_AnySingle, ...], Field(strict=False)] = Field(
        description="the mixer of each layer, repeated until the depth is reached"
    )

    family: ClassVar[Family] = "mixed"
    core: ClassVar[Core] = "unknown"

    @model_validator(mode="before")
    @classmethod
    def _name_it(cls, raw: Any) -> Any:
        """The name follows from the list; a given one is replaced,
        so that equal stacks have one identity.
        """
        if not isinstance(raw, dict) or not isinstance(raw.get("layers"), list | tuple):
            return raw
        names = [
            entry.get("name") if isinstance(entry, dict) else getattr(entry, "name", entry)
            for entry in raw["layers"]
        ]
        return raw | {"name": "+".join(str(name) for name in names)}

    def at(self, layer: int) -> MixerSpec:
        return self.layers[layer % len(self.layers)]

    def kinds(self) -> tuple[MixerSpec, ...]:
        return self.layers

    def check(self, width: int, depth: int, positions: Positions) -> None:
        if depth % len(self.layers):
            raise ValueError(
                f"depth = {depth}: must be a multiple of the {len(self.layers)} mixers in the "
                f"list; for example depth = {len(self.layers)}"
            )
        for entry in self.layers:
            entry.check(width, depth, positions)


def choose_mixer(raw: Any) -> Any:
    """The options that `raw` stands for."""
    if isinstance(raw, list | tuple):
        raw = {"layers": raw}
    if not isinstance(raw, dict) or "layers" not in raw:
        return choose_single(raw)
    if isinstance(raw["layers"], list | tuple) and not 2 <= len(raw["layers"]) <= MOST_LAYERS:
        raise ValueError(
            f"a list of mixers must have 2 to {MOST_LAYERS} entries, not {len(raw['layers'])}; "
            "one mixer needs no list"
        )
    try:
        return HybridSpec.model_validate(raw)
    except ValidationError as error:
        raise NestedError(explain(error, HybridSpec)) from None


AnyMixer = Annotated[SerializeAsAny[MixerSpec], BeforeValidator(choose_mixer)]
