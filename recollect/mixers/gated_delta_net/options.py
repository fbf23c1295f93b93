"""Options of Gated DeltaNet."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.mixers.delta_net.options import DeltaSpec


class GatedDeltaNetSpec(DeltaSpec):
    """Gated DeltaNet: the delta rule with a learnt decay of the whole memory."""

    name: Literal["gated_delta_net"] = "gated_delta_net"
    expand_v: int = Field(
        default=2, ge=1, le=16, description="channels of a value per channel of a key"
    )

    architecture: ClassVar[str] = "GatedDeltaNet"
    summary: ClassVar[str] = "the delta rule with an input-dependent decay per head"
    paper: ClassVar[str] = "Yang et al. 2025"


OPTIONS = (GatedDeltaNetSpec,)
