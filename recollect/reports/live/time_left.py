"""The time that one process still needs for runs of a folder: of a cell, of a sweep, of all."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recollect.analysis import Cell, remaining_s
from recollect.analysis.wording import between_text, time_text
from recollect.rows import RunRow
from recollect.spec.cell import cell_id

if TYPE_CHECKING:
    from recollect.running.planning.order import AskedFor


@dataclass(frozen=True)
class _CellTime:
    """Seconds for a run of a cell that has not ended, on average."""

    most_s: float
    likely_s: float  # a search leaves runs out


class TimeLeft:
    """The time left of the cells of a folder, for any of their runs.

    A cell's time is divided evenly among its runs that have not ended.
    """

    def __init__(self, cells: Sequence[Cell], asked: "AskedFor"):
        self._searched = asked.searched
        self._wanted = asked.in_full | asked.searched
        self._times = [
            _cell_time(cell, seconds, asked)
            for cell, seconds in zip(cells, remaining_s(cells), strict=True)
        ]
        self._cell_of = {
            row.run_id: number for number, cell in enumerate(cells) for row in cell.rows
        }

    def text(self, rows: Iterable[RunRow]) -> str:
        """Return the time left for these runs, empty if all have ended."""
        waiting: dict[int, list[RunRow]] = defaultdict(list)
        for row in rows:
            if not row.is_finished:
                waiting[self._cell_of[row.run_id]].append(row)
        if not waiting:
            return ""
        needed = [
            (self._times[number], own)
            for number, own in waiting.items()
            if any(row.status == "running" or row.run_id in self._wanted for row in own)
        ]
        if not needed:
            return "not needed"
        most_s, likely_s = 0.0, 0.0
        for time, own in needed:
            if time is None:
                return "?"
            most_s += time.most_s * len(own)
            likely_s += time.likely_s * len(own)
        is_searched = any(row.run_id in self._searched for _, own in needed for row in own)
        return between_text(likely_s, most_s) if is_searched else time_text(most_s)


def _cell_time(cell: Cell, seconds: float | None, asked: "AskedFor") -> _CellTime | None:
    """None if no run was timed, or all have ended."""
    todo = sum(row.status == "todo" for row in cell.rows)
    running = sum(row.status == "running" for row in cell.rows)
    if seconds is None or not todo + running:
        return None
    # Runs in training count in full.
    likely = asked.likely.get(cell_id(cell.rows[0].spec), todo) + running
    return _CellTime(seconds / (todo + running), seconds * likely / (todo + running) ** 2)
