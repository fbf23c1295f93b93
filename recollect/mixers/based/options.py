"""Options of Based."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.mixers.linear_attention.options import LinearSpec
from recollect.mixers.options import Positions


class BasedSpec(LinearSpec):
    """Based's linear attention alone: the second-order Taylor series of the exponential."""

    name: Literal["based"] = "based"
    features: int = Field(
        default=8, ge=1, le=256, description="channels of queries and keys of a head"
    )

    positions: ClassVar[Positions] = "learned"
    architecture: ClassVar[str] = "Based"
    summary: ClassVar[str] = "linear attention with the Taylor series of exp as its kernel"
    paper: ClassVar[str] = "Arora et al. 2024"


OPTIONS = (BasedSpec,)
