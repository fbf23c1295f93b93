"""A stack of several kinds of mixers, written as a list: `mixer = ["base_conv", "attention"]`, one entry a layer, repeated."""

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from recollect.spec.mixers.base import Core, Family, MixerSpec, Positions
from recollect.spec.mixers.registry import choose_single

_AnySingle = Annotated[SerializeAsAny[MixerSpec], BeforeValidator(choose_single)]


class HybridSpec(MixerSpec):
    """Layer i has entry i of the list, counted round and round; the name is made of the entries' names."""

    name: str
    layers: Annotated[tuple[_AnySingle, ...], Field(strict=False)] = Field(
        description="the mixer of each layer, repeated until the depth is reached"
    )

    family: ClassVar[Family] = "mixed"
    core: ClassVar[Core] = "unknown"

    @model_validator(mode="before")
    @classmethod
    def _name_it(cls, raw: Any) -> Any:
        """The name follows from the list; a given one is replaced, so that equal stacks have one identity."""
        if not isinstance(raw, dict) or not isinstance(raw.get("layers"), list | tuple):
            return raw
        names = [entry.get("name") if isinstance(entry, dict) else getattr(entry, "name", entry) for entry in raw["layers"]]
        return raw | {"name": "+".join(str(name) for name in names)}

    def at(self, layer: int) -> MixerSpec:
        return self.layers[layer % len(self.layers)]

    def kinds(self) -> tuple[MixerSpec, ...]:
        return self.layers

    def check(self, width: int, depth: int, positions: Positions) -> None:
        if depth % len(self.layers):
            raise ValueError(
                f"depth = {depth}: must be a multiple of the {len(self.layers)} mixers in the list; "
                f"for example depth = {len(self.layers)}"
            )
        for entry in self.layers:
            entry.check(width, depth, positions)
