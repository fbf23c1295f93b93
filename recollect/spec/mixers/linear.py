"""Options of the mixers that keep a sum of outer products: linear attention, Based, RetNet, GLA."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.spec.mixers.base import Core, Family, MixerSpec, Positions, must_divide
from recollect.spec.mixers.convolution import BaseConvSpec


class _LinearSpec(MixerSpec):
    name: str
    heads: int = Field(default=1, ge=1, le=1024, description="number of heads; must divide the width")

    family: ClassVar[Family] = "linear attention"
    core: ClassVar[Core] = "matrix products"

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        must_divide("heads", self.heads, width)


class LinearAttentionSpec(_LinearSpec):
    """Attention with a feature map in place of the softmax."""

    name: Literal["linear_attention"] = "linear_attention"
    feature_map: Literal["elu+1", "relu", "identity"] = Field(default="elu+1", description="applied to queries and keys")
    normaliser: Literal["sum", "rms"] = Field(
        default="sum", description='"sum" divides by the sum of the weights, "rms" normalises each head\'s output'
    )

    summary: ClassVar[str] = "attention with a feature map in place of the softmax"
    paper: ClassVar[str] = "Katharopoulos et al. 2020"


class BasedSpec(_LinearSpec):
    """Based's linear attention alone: the second-order Taylor series of the exponential."""

    name: Literal["based"] = "based"
    features: int = Field(default=8, ge=1, le=256, description="channels of queries and keys of a head")

    positions: ClassVar[Positions] = "learned"
    summary: ClassVar[str] = "linear attention with the Taylor series of exp as its kernel"
    paper: ClassVar[str] = "Arora et al. 2024"


class BasedHybridSpec(MixerSpec):
    """Based as Zoology stacks it: short BaseConv on even layers, Taylor linear attention on odd ones."""

    name: Literal["based_hybrid"] = "based_hybrid"
    heads: int = Field(default=1, ge=1, le=1024, description="heads of the linear attention; must divide the width")
    features: int = Field(default=8, ge=1, le=256, description="channels of queries and keys of a head")
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
                f"depth = {depth}: based_hybrid takes turns of a convolution and linear attention, so depth must be even; "
                'for one layer use mixer = "based"'
            )


class RetNetSpec(_LinearSpec):
    """Multi-scale retention: linear attention with a fixed decay per head."""

    name: Literal["retnet"] = "retnet"
    expand_v: int = Field(default=2, ge=1, le=16, description="channels of a value per channel of a key")

    summary: ClassVar[str] = "retention: rotated linear attention with a fixed decay per head"
    paper: ClassVar[str] = "Sun et al. 2023"

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        if (width // self.heads) % 2:
            raise ValueError(f"width = {width}: retention rotates pairs, so width / heads = {width // self.heads} must be even")


class GLASpec(_LinearSpec):
    """Gated linear attention: a learnt decay for each channel of the keys."""

    name: Literal["gla"] = "gla"
    rank: int = Field(default=16, ge=1, le=1024, description="rank of the decay's projection")

    summary: ClassVar[str] = "linear attention with an input-dependent decay per key channel"
    paper: ClassVar[str] = "Yang et al. 2024"

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        if width % (2 * self.heads):
            raise ValueError(
                f"width = {width}: keys have width / 2 channels, so 2 * mixer.heads = {2 * self.heads} must divide it; "
                f"for example width = {2 * self.heads * max(1, width // (2 * self.heads))}"
            )
