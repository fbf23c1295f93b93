"""Options of RetNet."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.mixers.linear_attention.options import LinearSpec
from recollect.mixers.options import Positions


class RetNetSpec(LinearSpec):
    """Multi-scale retention: linear attention with a fixed decay per head."""

    name: Literal["retnet"] = "retnet"
    expand_v: int = Field(
        default=2, ge=1, le=16, description="channels of a value per channel of a key"
    )

    architecture: ClassVar[str] = "RetNet"
    summary: ClassVar[str] = "retention: rotated linear attention with a fixed decay per head"
    paper: ClassVar[str] = "Sun et al. 2023"

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        if (width // self.heads) % 2:
            raise ValueError(
                f"width = {width}: retention rotates pairs, so width / heads = "
                f"{width // self.heads} must be even"
            )


OPTIONS = (RetNetSpec,)
