"""Options of Mamba and of S6, its core in a transformer's block."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from recollect.mixers.options import Block, Core, Family, MixerSpec, Norm


class SelectiveSpec(MixerSpec):
    name: str
    state: int = Field(default=16, ge=1, le=1024, description="numbers each channel remembers (N)")
    kernel: int = Field(
        default=4,
        ge=0,
        le=64,
        description="taps of the causal convolution before the scan; 0: none",
    )
    expand: int = Field(default=2, ge=1, le=16, description="inner channels per model channel")
    gate: bool = Field(
        default=True, description="multiply the output with SiLU of a second projection"
    )
    init: Literal["official", "zoology", "mimetic"] = Field(
        default="official",
        description='"zoology" is what it overwrote until January 2025: a memory of one token; '
        '"mimetic" starts near linear attention without decay',
    )

    block: ClassVar[Block] = "mixer"
    norm: ClassVar[Norm] = "rms"
    family: ClassVar[Family] = "state space"
    core: ClassVar[Core] = "selective scan"


class MambaSpec(SelectiveSpec):
    """Mamba: a gated block around the selective state space S6."""

    name: Literal["mamba"] = "mamba"

    architecture: ClassVar[str] = "Mamba"
    summary: ClassVar[str] = "selective state space with gate and short convolution"
    paper: ClassVar[str] = "Gu and Dao 2023"
    option_combinations: ClassVar[tuple[dict[str, Any], ...]] = ({"gate": False, "kernel": 0},)


class S6Spec(SelectiveSpec):
    """Mamba's core without its gate, in a transformer's block (the study's S6 + MLP)."""

    name: Literal["s6"] = "s6"
    gate: bool = Field(
        default=False, description="multiply the output with SiLU of a second projection"
    )

    block: ClassVar[Block] = "mixer+mlp"
    norm: ClassVar[Norm] = "layer"
    architecture: ClassVar[str] = "Mamba"
    summary: ClassVar[str] = "Mamba's core in a transformer's block"
    paper: ClassVar[str] = "Gu and Dao 2023"


OPTIONS = (MambaSpec, S6Spec)
