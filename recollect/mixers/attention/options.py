"""Options of softmax attention."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from recollect.mixers.options import Core, Family, MixerSpec, Positions, must_divide
from recollect.spec.base import Later


class AttentionSpec(MixerSpec):
    """Softmax attention, with the study's short convolutions on queries, keys and values."""

    name: Literal["attention"] = "attention"
    heads: int = Field(
        default=1, ge=1, le=1024, description="number of heads; must divide the width"
    )
    conv: Literal["none", "q", "k", "v", "qk", "qkv"] = Field(
        default="none",
        description="which of queries, keys and values get a short convolution over time, "
        "each its own",
    )
    conv_kernel: int = Field(default=4, ge=2, le=64, description="taps of these convolutions")
    conv_place: Literal["before", "after"] = Field(
        default="before", description="before or after the projection"
    )
    conv_padding: Literal["causal", "same"] = Field(
        default="causal",
        description='"same" centres the taps and so looks ahead, as the study most likely did',
    )
    rope_share: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="share of a head's channels that rope turns (GPT-NeoX: 0.25)",
    )

    qk_norm: Annotated[bool, Later()] = Field(
        default=False,
        description="queries and keys of each head are normalised (RMSNorm with a weight)",
    )

    positions: ClassVar[Positions] = "learned"
    positions_inside: ClassVar[tuple[Positions, ...]] = ("relative", "rope", "alibi")
    family: ClassVar[Family] = "attention"
    core: ClassVar[Core] = "matrix products"
    architecture: ClassVar[str] = "Attention"
    summary: ClassVar[str] = "causal softmax attention"
    paper: ClassVar[str] = "Vaswani et al. 2017"
    option_combinations: ClassVar[tuple[dict[str, Any], ...]] = (
        {"conv": "qkv", "conv_place": "after"},
        {"conv": "v", "conv_padding": "same"},
        {"conv": "k", "conv_padding": "same", "conv_place": "after", "conv_kernel": 3},
        {"conv": "k", "conv_kernel": 2},
        {"heads": 2, "qk_norm": True},
        {"conv": "qk", "conv_place": "after", "qk_norm": True},
    )

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        must_divide("heads", self.heads, width)
        turned = self.turned(width)
        if positions == "rope" and (turned % 2 or not turned):
            raise ValueError(
                f"width = {width}: rope turns pairs of channels, but rope_share = "
                f"{self.rope_share} of a head's {width // self.heads} is {turned}; make it an "
                "even number"
            )

    def turned(self, width: int) -> int:
        """Return the number of channels of a head that rope turns."""
        return int(self.rope_share * (width // self.heads))


OPTIONS = (AttentionSpec,)
