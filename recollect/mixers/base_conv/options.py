"""Options of BaseConv."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.mixers.options import Core, Family, MixerSpec


class BaseConvSpec(MixerSpec):
    """A convolution over time, gated by a linear projection."""

    name: Literal["base_conv"] = "base_conv"
    filter: Literal["alternate", "short", "long"] = Field(
        default="alternate",
        description='"short": a few taps; "long": a learnt function of the lag; '
        '"alternate": by layer, short first',
    )
    kernel: int = Field(default=3, ge=2, le=64, description="taps of the short filter")

    family: ClassVar[Family] = "convolution"
    core: ClassVar[Core] = "FFT"
    architecture: ClassVar[str] = "BaseConv"
    summary: ClassVar[str] = "convolution gated by a projection, short and long in turn"
    paper: ClassVar[str] = "Arora et al. 2023"


OPTIONS = (BaseConvSpec,)
