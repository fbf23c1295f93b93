"""Options of sliding-window attention."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.mixers.options import Core, Family, MixerSpec, Positions, must_divide


class SlidingWindowSpec(MixerSpec):
    """Softmax attention over the present and the last few positions."""

    name: Literal["sliding_window"] = "sliding_window"
    heads: int = Field(
        default=1, ge=1, le=1024, description="number of heads; must divide the width"
    )
    window: int = Field(
        default=16, ge=1, le=65_536, description="positions seen, the present one included"
    )

    positions: ClassVar[Positions] = "learned"
    positions_inside: ClassVar[tuple[Positions, ...]] = ("relative", "rope", "alibi")
    family: ClassVar[Family] = "attention"
    core: ClassVar[Core] = "matrix products"
    architecture: ClassVar[str] = "SlidingWindow"
    summary: ClassVar[str] = "softmax attention over the last few positions"
    paper: ClassVar[str] = "Beltagy et al. 2020"

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        must_divide("heads", self.heads, width)
        if positions == "rope" and (width // self.heads) % 2:
            raise ValueError(
                f"width = {width}: rope rotates pairs, so width / heads = {width // self.heads} "
                "must be even"
            )


OPTIONS = (SlidingWindowSpec,)
