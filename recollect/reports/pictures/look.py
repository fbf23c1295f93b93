"""The options of a picture that select its numbers."""

from dataclasses import dataclass

from recollect.analysis import TAU


@dataclass(frozen=True)
class Look:
    """The band over seeds, the level of a window, the axis of `scaling`, and whether the panels of
    `windows` are in the order of the rows instead of by task and size.
    """

    band: str = "min-max"
    tau: float = TAU
    against: str | None = None
    by_rows: bool = False
