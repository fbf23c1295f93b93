"""Options of the selective state spaces: Mamba, its core S6 as a transformer's mixer, Mamba2."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.spec.mixers.base import Block, Core, Family, MixerSpec, Norm, Positions


class _SelectiveSpec(MixerSpec):
    name: str
    state: int = Field(default=16, ge=1, le=1024, description="numbers each channel remembers (N)")
    kernel: int = Field(default=4, ge=0, le=64, description="taps of the causal convolution before the scan; 0: none")
    expand: int = Field(default=2, ge=1, le=16, description="inner channels per model channel")
    gate: bool = Field(default=True, description="multiply the output with SiLU of a second projection")
    init: Literal["official", "zoology"] = Field(
        default="official", description='"zoology" is what it overwrote until January 2025: a memory of one token'
    )

    block: ClassVar[Block] = "mixer"
    norm: ClassVar[Norm] = "rms"
    family: ClassVar[Family] = "state space"
    core: ClassVar[Core] = "scan"


class MambaSpec(_SelectiveSpec):
    """Mamba: a gated block around the selective state space S6."""

    name: Literal["mamba"] = "mamba"

    summary: ClassVar[str] = "selective state space with gate and short convolution"
    paper: ClassVar[str] = "Gu and Dao 2023"


class S6Spec(_SelectiveSpec):
    """Mamba's core without its gate, in a transformer's block (the study's S6 + MLP)."""

    name: Literal["s6"] = "s6"
    gate: bool = Field(default=False, description="multiply the output with SiLU of a second projection")

    block: ClassVar[Block] = "mixer+mlp"
    norm: ClassVar[Norm] = "layer"
    summary: ClassVar[str] = "Mamba's core in a transformer's block"
    paper: ClassVar[str] = "Gu and Dao 2023"


class Mamba2Spec(_SelectiveSpec):
    """Mamba2: one decay per head, so that the scan is a masked matrix product."""

    name: Literal["mamba2"] = "mamba2"
    state: int = Field(default=128, ge=1, le=1024, description="numbers each channel remembers (N)")
    head: int = Field(default=64, ge=1, le=1024, description="channels of a head; must divide expand * width")
    init: Literal["official", "zoology"] = Field(
        default="official", description='"zoology" is what it overwrote until January 2025: small weights, the same memory'
    )

    core: ClassVar[Core] = "matrix products"
    summary: ClassVar[str] = "state space duality: one decay per head"
    paper: ClassVar[str] = "Dao and Gu 2024"

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        inner = self.expand * width
        if inner % self.head:
            raise ValueError(f"mixer.head = {self.head}: must divide expand * width = {inner}; for example head = {width}")
