"""What each scenario did to a sweep and what was left of it, as a table in a page.

A scenario that ran replaces its own line, so that one of them may be measured again alone.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

BEGIN, END = "<!-- scenarios -->", "<!-- end of scenarios -->"
HEAD = (
    *("scenario", "disturbances", "attempts", "runs equal", "points equal", "seconds"),
    "measured",
)


@dataclass
class Figures:
    """Of one scenario."""

    name: str
    began: float
    disturbed: int = 0  # processes killed, signals sent, tasks that were refused something
    attempts: int = 0  # at all packs
    runs: int = 0  # equal to those of one undisturbed process
    points: int = 0  # of their curves
    seconds: float = 0.0

    @classmethod
    def begin(cls, test: str) -> Self:
        return cls(test.removeprefix("test_").replace("_", " "), time.monotonic())

    def end(self) -> None:
        self.seconds = time.monotonic() - self.began

    def to_line(self) -> str:
        numbers = (self.disturbed, self.attempts, self.runs, self.points, round(self.seconds))
        cells = (self.name, *map(str, numbers), f"{datetime.now(UTC):%Y-%m-%d}")
        return f"| {' | '.join(cells)} |"


def put_into(page: Path, found: Figures) -> None:
    """Its line; those of other scenarios stay."""
    before, _, rest = page.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    head = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    old = [line for line in table.splitlines() if line and line not in head]
    lines = {line.split("|")[1].strip(): line for line in old}
    lines[found.name] = found.to_line()
    page.write_text("\n".join([before + BEGIN, *head, *lines.values(), END + after]))
