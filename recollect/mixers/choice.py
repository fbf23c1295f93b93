"""How a specification names a mixer: a name, a table with options, or a list by layer."""

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationError, model_validator

from recollect.mixers.fla.options import PREFIX, FlaSpec, installed_version
from recollect.mixers.options import LOOKS_AT, Core, Family, MixerSpec, Positions
from recollect.mixers.registry import MIXERS
from recollect.spec.base import NestedError, by_name, explain, shorten

MOST_LAYERS = 1000

_choose_registered = by_name(MIXERS, "mixer", hint=" (one of a plug-in needs --plugin FILE.py)")


def choose_single(raw: Any) -> Any:
    """Return the options that a name, or a table with a name, stands for."""
    table = {"name": raw} if isinstance(raw, str) else raw
    name = table.get("name") if isinstance(table, dict) else None
    if not isinstance(name, str):
        return _choose_registered(raw)
    own_name, at, looks_at = name.partition("@")
    if name.startswith(PREFIX):
        version = table.get("version") or installed_version(shorten(name))
        return _validated(FlaSpec, table | {"version": version})
    if not at or own_name not in MIXERS:
        return _choose_registered(raw)
    if not MIXERS[own_name].foreign or looks_at not in LOOKS_AT:
        raise ValueError(
            f"{shorten(name)}: only a mixer from outside has a name with @, and after it one of "
            f"{', '.join(LOOKS_AT)}"
        )
    return _validated(MIXERS[own_name], table)


def _validated(kind: type[MixerSpec], table: dict[str, Any]) -> MixerSpec:
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        raise NestedError(explain(error, kind)) from None


_AnySingle = Annotated[SerializeAsAny[MixerSpec], BeforeValidator(choose_single)]


class HybridSpec(MixerSpec):
    """Several mixers in turn: layer i has entry i of the list, modulo its length. The name is made
    of the entries' names.
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
        """Derive the name from the list, replacing a given one: equal stacks have one identity."""
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
    """Return the options that `raw` stands for."""
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
