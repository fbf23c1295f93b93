"""Options of gated linear attention."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.mixers.linear_attention.options import LinearSpec
from recollect.mixers.options import Positions


class GLASpec(LinearSpec):
    """Gated linear attention: a learnt decay for each channel of the keys."""

    name: Literal["gla"] = "gla"
    rank: int = Field(default=16, ge=1, le=1024, description="rank of the decay's projection")

    architecture: ClassVar[str] = "GLA"
    summary: ClassVar[str] = "linear attention with an input-dependent decay per key channel"
    paper: ClassVar[str] = "Yang et al. 2024"

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        if width % (2 * self.heads):
            raise ValueError(
                f"width = {width}: keys have width / 2 channels, so 2 * mixer.heads = "
                f"{2 * self.heads} must divide it; for example width = "
                f"{2 * self.heads * max(1, width // (2 * self.heads))}"
            )


OPTIONS = (GLASpec,)
