"""The model around a mixer: width, depth, block, norm, positions."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from recollect.mixers.choice import AnyMixer, choose_mixer
from recollect.mixers.options import Block, MixerSpec, Norm, Positions, Rescale
from recollect.spec.base import Later, Spec

Residual = Literal["serial", "parallel"]
Head = Literal["tied", "untied"]


class ModelSpec(Spec):
    """The model around a mixer.

    Block, norm and positions default to the choices of the mixer's own paper. The specification
    records the resolved values.
    """

    mixer: AnyMixer = Field(
        examples=["attention"],
        description="the sequence mixer: a name, a table with its options, or a list of both by "
        "layer",
    )
    width: int = Field(default=64, ge=1, le=65_536, description="channels of the residual stream")
    depth: int = Field(default=2, ge=1, le=1_000, description="number of layers")
    block: Block = Field(
        description='a layer: "mixer+mlp", "mixer" alone, "mixer+identity" (x += norm(x), as '
        'Zoology ran it), or "mixer+channel-mix" (RWKV\'s own)'
    )
    norm: Norm = Field(
        description="normalisation before each branch; the last one is always a LayerNorm"
    )
    positions: Positions = Field(description="positional encoding")
    mlp_ratio: int = Field(
        default=4, ge=1, le=64, description="hidden units of the MLP or channel mix per channel"
    )
    dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="on the embedding and on attention's weights; Zoology: 0.1, and 0 for Mamba",
    )
    residual: Annotated[Residual, Later()] = Field(
        default="serial",
        description="a layer's second half after the first, or of the same input (GPT-NeoX)",
    )
    head: Annotated[Head, Later()] = Field(
        default="tied", description="the embedding once more, or a matrix of its own (GPT-NeoX)"
    )
    rescale: Annotated[Rescale, Later()] = Field(
        default="own",
        description="initial output projections of attention, Hyena, Mamba and MLP: as each one's "
        'code, by the root of all "branches" (official Mamba with MLP), or "none" (GPT-NeoX)',
    )

    @model_validator(mode="before")
    @classmethod
    def _ask_the_mixer(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        try:
            mixer = choose_mixer(raw["mixer"])
        except (KeyError, ValueError):
            # The field `mixer` reports the bad mixer. These values keep missing fields from being
            # reported as well.
            return {"block": "mixer", "norm": "layer", "positions": "none"} | raw
        assert isinstance(mixer, MixerSpec)
        # All blocks of a stack are of one kind: mixers with different defaults get the defaults of
        # MixerSpec, which are those of a transformer.
        wanted = {
            key: {getattr(kind, key) for kind in mixer.kinds()}
            for key in ("block", "norm", "positions")
        }
        chosen = {
            key: found.pop() if len(found) == 1 else getattr(MixerSpec, key)
            for key, found in wanted.items()
        }
        return chosen | raw

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.mixer.check(self.width, self.depth, self.positions)
        rotated = any("relative" not in kind.positions_inside for kind in self.mixer.kinds())
        if self.positions == "relative" and rotated and self.width % 2:
            raise ValueError(
                f'width = {self.width}: positions = "relative" rotates pairs of channels, so '
                "width must be even"
            )
        if self.residual == "parallel" and self.block == "mixer":
            raise ValueError(
                'residual = "parallel": block = "mixer" has one half and nothing beside it; use '
                'block = "mixer+mlp"'
            )
        return self
