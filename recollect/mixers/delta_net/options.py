"""Options of DeltaNet, and what Gated DeltaNet shares with it."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.mixers.options import Core, Family, MixerSpec, Positions, must_divide


class DeltaSpec(MixerSpec):
    name: str
    heads: int = Field(
        default=1, ge=1, le=1024, description="number of heads; must divide the width"
    )
    kernel: int = Field(
        default=4, ge=0, le=64, description="taps of the causal convolutions on q, k and v; 0: none"
    )
    gate: bool = Field(
        default=False, description="multiply the normalised output with SiLU of a projection"
    )
    negative: bool = Field(
        default=False,
        description="beta in (0, 2) instead of (0, 1), so that a write can flip the sign",
    )
    precision: Literal["fp32", "bf16"] = Field(
        default="fp32",
        description="bf16 rounds q, k and v before the rule, where Zoology casts them",
    )

    family: ClassVar[Family] = "delta rule"
    core: ClassVar[Core] = "triangular solve"

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        must_divide("heads", self.heads, width)


class DeltaNetSpec(DeltaSpec):
    """DeltaNet: a write replaces what the key recalled before."""

    name: Literal["delta_net"] = "delta_net"

    architecture: ClassVar[str] = "DeltaNet"
    summary: ClassVar[str] = "linear attention whose writes replace what the key recalled"
    paper: ClassVar[str] = "Yang et al. 2024; Schlag et al. 2021"


OPTIONS = (DeltaNetSpec,)
