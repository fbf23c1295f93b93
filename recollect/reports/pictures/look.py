"""How the numbers of a picture are chosen."""

from dataclasses import dataclass

from recollect.analysis import TAU


@dataclass(frozen=True)
class Look:
    """The band over seeds, the level of a window, and the axis of `scaling`."""

    band: str = "min-max"
    tau: float = TAU
    against: str | None = None
