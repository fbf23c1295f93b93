"""Options of H3."""

import math
from typing import Any, ClassVar, Literal

from pydantic import Field

from recollect.mixers.options import Core, Family, MixerSpec, Positions, must_divide


class H3Spec(MixerSpec):
    """H3: a shift state space on the keys, a diagonal one on the products of keys and values."""

    name: Literal["h3"] = "h3"
    state: int = Field(
        default=0,
        ge=0,
        le=65_536,
        description="size N of both state spaces, even; 0: the sequence length, rounded up to even",
    )
    head: int = Field(
        default=2, ge=1, le=256, description="channels of a head; must divide the width"
    )

    family: ClassVar[Family] = "state space"
    core: ClassVar[Core] = "FFT"
    architecture: ClassVar[str] = "H3"
    summary: ClassVar[str] = "shift and diagonal state spaces between two products"
    paper: ClassVar[str] = "Fu et al. 2023"

    @classmethod
    def small_options(cls, width: int) -> dict[str, Any]:
        return {"state": 8, "head": math.gcd(2, width)}

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        must_divide("head", self.head, width)
        if self.state % 2:
            raise ValueError(
                f"mixer.state = {self.state}: complex numbers come in pairs, so it must be even; "
                "for example 64"
            )


OPTIONS = (H3Spec,)
