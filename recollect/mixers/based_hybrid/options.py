"""Options of Based as Zoology stacks it: short convolution and linear attention in turn."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.mixers.base_conv.options import BaseConvSpec
from recollect.mixers.based.options import BasedSpec
from recollect.mixers.options import Core, Family, MixerSpec, Positions, must_divide


class BasedHybridSpec(MixerSpec):
    """Based as Zoology stacks it: short BaseConv on even layers,
    Taylor linear attention on odd ones.
    """

    name: Literal["based_hybrid"] = "based_hybrid"
    heads: int = Field(
        default=1, ge=1, le=1024, description="heads of the linear attention; must divide the width"
    )
    features: int = Field(
        default=8, ge=1, le=256, description="channels of queries and keys of a head"
    )
    conv_kernel: int = Field(default=3, ge=2, le=64, description="taps of the convolution")

    family: ClassVar[Family] = "mixed"
    core: ClassVar[Core] = "matrix products"
    summary: ClassVar[str] = "short gated convolution and Based in turn, as in Zoology"
    paper: ClassVar[str] = "Arora et al. 2024"

    def at(self, layer: int) -> MixerSpec:
        if layer % 2 == 0:
            return BaseConvSpec(filter="short", kernel=self.conv_kernel)
        return BasedSpec(heads=self.heads, features=self.features)

    def kinds(self) -> tuple[MixerSpec, ...]:
        return self.at(0), self.at(1)

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        must_divide("heads", self.heads, width)
        if depth % 2:
            raise ValueError(
                f"depth = {depth}: based_hybrid takes turns of a convolution and linear "
                'attention, so depth must be even; for one layer use mixer = "based"'
            )


OPTIONS = (BasedHybridSpec,)
