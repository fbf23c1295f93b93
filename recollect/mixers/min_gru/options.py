"""Options of minGRU."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from recollect.mixers.options import Core, Family, MixerSpec


class MinGRUSpec(MixerSpec):
    """A GRU whose gates look at the input alone, so that it is a linear scan."""

    name: Literal["min_gru"] = "min_gru"
    expand: int = Field(
        default=1, ge=1, le=16, description="channels of the state per model channel"
    )

    family: ClassVar[Family] = "recurrent"
    core: ClassVar[Core] = "scan"
    architecture: ClassVar[str] = "MinGRU"
    summary: ClassVar[str] = "a GRU whose gates see the input alone"
    paper: ClassVar[str] = "Feng et al. 2024"
    option_combinations: ClassVar[tuple[dict[str, Any], ...]] = ({"expand": 2},)


OPTIONS = (MinGRUSpec,)
