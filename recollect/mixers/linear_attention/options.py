"""Options of linear attention, and those shared with related mixers."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.mixers.options import Core, Family, MixerSpec, Positions, must_divide


class LinearSpec(MixerSpec):
    name: str
    heads: int = Field(
        default=1, ge=1, le=1024, description="number of heads; must divide the width"
    )

    family: ClassVar[Family] = "linear attention"
    core: ClassVar[Core] = "matrix products"

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        must_divide("heads", self.heads, width)


class LinearAttentionSpec(LinearSpec):
    """Attention with a feature map in place of the softmax."""

    name: Literal["linear_attention"] = "linear_attention"
    feature_map: Literal["elu+1", "relu", "identity"] = Field(
        default="elu+1", description="applied to queries and keys"
    )
    normaliser: Literal["sum", "rms"] = Field(
        default="sum",
        description='"sum" divides by the sum of the weights, "rms" normalises each head\'s output',
    )

    architecture: ClassVar[str] = "LinearAttention"
    summary: ClassVar[str] = "attention with a feature map in place of the softmax"
    paper: ClassVar[str] = "Katharopoulos et al. 2020"


OPTIONS = (LinearAttentionSpec,)
