"""Options of GRU."""

from typing import ClassVar, Literal

from recollect.mixers.options import Core, Family, MixerSpec


class GRUSpec(MixerSpec):
    """Gated recurrent unit."""

    name: Literal["gru"] = "gru"

    family: ClassVar[Family] = "recurrent"
    core: ClassVar[Core] = "recurrence"
    architecture: ClassVar[str] = "GRU"
    summary: ClassVar[str] = "gated recurrent unit"
    paper: ClassVar[str] = "Cho et al. 2014"


OPTIONS = (GRUSpec,)
