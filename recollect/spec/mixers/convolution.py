"""Options of the mixers built on convolutions over time: BaseConv, Hyena, H3."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.spec.mixers.base import Core, Family, MixerSpec, Positions, must_divide


class BaseConvSpec(MixerSpec):
    """A convolution over time, gated by a linear projection."""

    name: Literal["base_conv"] = "base_conv"
    filter: Literal["alternate", "short", "long"] = Field(
        default="alternate",
        description='"short": a few taps; "long": a learnt function of the lag; "alternate": by layer, short first',
    )
    kernel: int = Field(default=3, ge=2, le=64, description="taps of the short filter")

    family: ClassVar[Family] = "convolution"
    core: ClassVar[Core] = "FFT"
    summary: ClassVar[str] = "convolution gated by a projection, short and long in turn"
    paper: ClassVar[str] = "Arora et al. 2023"


class HyenaSpec(MixerSpec):
    """Hyena of order 2: two gates around a convolution with an implicit, learnt filter."""

    name: Literal["hyena"] = "hyena"
    filter: Literal["zoology", "safari"] = Field(
        default="zoology",
        description='how lags enter the filter network: "zoology" (3 numbers, trained), "safari" (5, fixed, sines 10x faster)',
    )
    filter_width: int = Field(default=64, ge=1, le=4096, description="hidden units of the filter network")
    kernel: int = Field(default=3, ge=1, le=64, description="taps of the short convolution")
    init: Literal["zoology", "pytorch"] = Field(
        default="zoology", description="linear layers N(0, 0.02), which makes the filter 1000x smaller, or PyTorch's default"
    )

    family: ClassVar[Family] = "convolution"
    core: ClassVar[Core] = "FFT"
    summary: ClassVar[str] = "gated long convolution with an implicit filter"
    paper: ClassVar[str] = "Poli et al. 2023"


class H3Spec(MixerSpec):
    """H3: a shift state space on the keys, a diagonal one on the products of keys and values."""

    name: Literal["h3"] = "h3"
    state: int = Field(
        default=0, ge=0, le=65_536, description="size N of both state spaces, even; 0: the sequence length, rounded up to even"
    )
    head: int = Field(default=2, ge=1, le=256, description="channels of a head; must divide the width")

    family: ClassVar[Family] = "state space"
    core: ClassVar[Core] = "FFT"
    summary: ClassVar[str] = "shift and diagonal state spaces between two products"
    paper: ClassVar[str] = "Fu et al. 2023"

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        must_divide("head", self.head, width)
        if self.state % 2:
            raise ValueError(f"mixer.state = {self.state}: complex numbers come in pairs, so it must be even; for example 64")
