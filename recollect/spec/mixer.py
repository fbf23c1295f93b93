"""The options of every built-in mixer, and what a mixer wants of the model around it.

Torch-free: a specification must be checked before anything heavy is imported. The architectures themselves are in
recollect/mixers/, one a file, under the same names.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny

from recollect.spec.base import Spec, by_name

Block = Literal["mixer+mlp", "mixer", "mixer+identity"]
Norm = Literal["layer", "rms"]
Positions = Literal["none", "learned", "sinusoidal", "relative", "rope"]


class MixerSpec(Spec):
    """Base of all mixers' options. The class attributes fill what a [model] table leaves out."""

    name: str
    block: ClassVar[Block] = "mixer+mlp"
    norm: ClassVar[Norm] = "layer"
    positions: ClassVar[Positions] = "none"
    # Positions that live inside the mixer; the others are added to the embedding and work with every mixer.
    positions_inside: ClassVar[tuple[Positions, ...]] = ()
    summary: ClassVar[str] = ""

    def check(self, width: int, positions: Positions) -> None:
        """Raise ValueError if this mixer cannot be built at this width with these positions."""
        if positions in ("relative", "rope") and positions not in self.positions_inside:
            raise ValueError(
                f'positions = "{positions}": {self.name} has no scores to put them on; use none, learned or sinusoidal'
            )


class AttentionSpec(MixerSpec):
    """Softmax attention."""

    name: Literal["attention"] = "attention"
    heads: int = Field(default=1, ge=1, le=1024, description="number of heads; must divide the width")

    positions: ClassVar[Positions] = "learned"
    positions_inside: ClassVar[tuple[Positions, ...]] = ("relative", "rope")
    summary: ClassVar[str] = "causal softmax attention (Vaswani et al. 2017)"

    def check(self, width: int, positions: Positions) -> None:
        super().check(width, positions)
        if width % self.heads:
            raise ValueError(f"mixer.heads = {self.heads}: must divide width = {width}; for example heads = 1")
        if positions == "rope" and (width // self.heads) % 2:
            raise ValueError(f"width = {width}: rope rotates pairs, so width / heads = {width // self.heads} must be even")


class MambaSpec(MixerSpec):
    """Mamba: a gated block around the selective state space S6."""

    name: Literal["mamba"] = "mamba"
    state: int = Field(default=16, ge=1, le=1024, description="numbers each channel remembers (N)")
    kernel: int = Field(default=4, ge=1, le=64, description="taps of the causal convolution before the scan")
    expand: int = Field(default=2, ge=1, le=16, description="inner channels per model channel")

    block: ClassVar[Block] = "mixer"
    norm: ClassVar[Norm] = "rms"
    summary: ClassVar[str] = "selective state space with gate and short convolution (Gu and Dao 2023)"


# Name -> options. A plugin adds its own line here (see mixers/foreign.py).
MIXERS: dict[str, type[MixerSpec]] = {"attention": AttentionSpec, "mamba": MambaSpec}

choose_mixer = by_name(MIXERS, "mixer", hint=" (one of a plugin needs --plugin FILE.py)")
AnyMixer = Annotated[SerializeAsAny[MixerSpec], BeforeValidator(choose_mixer)]
