"""Options of Mamba2."""

import math
from typing import Any, ClassVar, Literal

from pydantic import Field

from recollect.mixers.mamba.options import SelectiveSpec
from recollect.mixers.options import Core, Positions


class Mamba2Spec(SelectiveSpec):
    """Mamba2: one decay per head, so that the scan is a masked matrix product."""

    name: Literal["mamba2"] = "mamba2"
    state: int = Field(default=128, ge=1, le=1024, description="numbers each channel remembers (N)")
    head: int = Field(
        default=64, ge=1, le=1024, description="channels of a head; must divide expand * width"
    )
    init: Literal["official", "zoology"] = Field(
        default="official",
        description='"zoology" is what it overwrote until January 2025: small weights, '
        "the same memory",
    )

    core: ClassVar[Core] = "matrix products"
    architecture: ClassVar[str] = "Mamba2"
    summary: ClassVar[str] = "state space duality: one decay per head"
    paper: ClassVar[str] = "Dao and Gu 2024"
    option_combinations: ClassVar[tuple[dict[str, Any], ...]] = ({"gate": False, "head": 4},)

    @classmethod
    def small_options(cls, width: int) -> dict[str, Any]:
        return {"head": math.gcd(64, 2 * width)}

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        inner = self.expand * width
        if inner % self.head:
            raise ValueError(
                f"mixer.head = {self.head}: must divide expand * width = {inner}; for example "
                f"head = {width}"
            )


OPTIONS = (Mamba2Spec,)
