"""The model around a mixer: width, depth, block, norm, positions."""

from typing import Any, Self

from pydantic import Field, model_validator

from recollect.spec.base import Spec
from recollect.spec.mixer import AnyMixer, Block, MixerSpec, Norm, Positions, choose_mixer


class ModelSpec(Spec):
    """Block, norm and positions default to what the mixer's own paper uses, and are recorded as what they resolved to."""

    mixer: AnyMixer = Field(examples=["attention"], description="the sequence mixer: a name, or a table with its options")
    width: int = Field(default=64, ge=1, le=65_536, description="channels of the residual stream")
    depth: int = Field(default=2, ge=1, le=1_000, description="number of layers")
    block: Block = Field(
        description='a layer: "mixer+mlp", "mixer" alone, or "mixer+identity" (x += norm(x), as Zoology ran it)'
    )
    norm: Norm = Field(description="normalisation before each branch; the last one is always a LayerNorm")
    positions: Positions = Field(description="positional encoding")
    mlp_ratio: int = Field(default=4, ge=1, le=64, description="hidden units of the MLP per channel")

    @model_validator(mode="before")
    @classmethod
    def _ask_the_mixer(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        try:
            mixer = choose_mixer(raw["mixer"])
        except (KeyError, ValueError):
            # Reported once, by the field itself; the values only keep the missing ones from being reported on top of it.
            return {"block": "mixer", "norm": "layer", "positions": "none"} | raw
        assert isinstance(mixer, MixerSpec)
        return {"block": mixer.block, "norm": mixer.norm, "positions": mixer.positions} | raw

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.mixer.check(self.width, self.positions)
        return self
