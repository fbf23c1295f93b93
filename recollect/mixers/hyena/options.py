"""Options of Hyena."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.mixers.options import Core, Family, MixerSpec


class HyenaSpec(MixerSpec):
    """Hyena of order 2: two gates around a convolution with an implicit, learnt filter."""

    name: Literal["hyena"] = "hyena"
    filter: Literal["zoology", "safari"] = Field(
        default="zoology",
        description='how lags enter the filter network: "zoology" (3 numbers, trained), '
        '"safari" (5, fixed, sines 10x faster)',
    )
    filter_width: int = Field(
        default=64, ge=1, le=4096, description="hidden units of the filter network"
    )
    kernel: int = Field(default=3, ge=1, le=64, description="taps of the short convolution")
    init: Literal["zoology", "pytorch"] = Field(
        default="zoology",
        description="linear layers N(0, 0.02), which makes the filter 1000x smaller, or "
        "PyTorch's default",
    )

    family: ClassVar[Family] = "convolution"
    core: ClassVar[Core] = "FFT"
    architecture: ClassVar[str] = "Hyena"
    summary: ClassVar[str] = "gated long convolution with an implicit filter"
    paper: ClassVar[str] = "Poli et al. 2023"


OPTIONS = (HyenaSpec,)
