"""The time that one process still needs for runs of a folder: of a cell, of a sweep, of all."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from recollect.analysis import Cell, remaining_s
from recollect.analysis.wording import between_text, time_text
from recollect.rows import RunRow
from recollect.spec.cell import cell_id

if TYPE_CHECKING:
    from recollect.running.planning.order import AskedFor


class TimeLeft:
    """The time left for any runs of the cells of a folder.

    A cell's time is divided evenly among its runs that have not ended.
    """

    def __init__(self, cells: Sequence[Cell]):
        self._run_s = [
            _run_seconds(cell, seconds)
            for cell, seconds in zip(cells, remaining_s(cells), strict=True)
        ]
        self._cell_of = {
            row.run_id: number for number, cell in enumerate(cells) for row in cell.rows
        }

    def text(self, rows: Iterable[RunRow], asked: "AskedFor") -> str:
        """Return the time left for these runs as far as they are asked for, empty if all have
        ended.
        """
        waiting: dict[int, list[RunRow]] = defaultdict(list)
        for row in rows:
            if not row.is_finished:
                waiting[self._cell_of[row.run_id]].append(row)
        if not waiting:
            return ""
        wanted = asked.runs
        needed = {
            number: own
            for number, own in waiting.items()
            if any(row.status == "running" or row.run_id in wanted for row in own)
        }
        if not needed:
            return "not needed"
        most_s, likely_s = 0.0, 0.0
        for number, own in needed.items():
            run_s = self._run_s[number]
            if run_s is None:
                return "?"
            most_s += run_s * len(own)
            likely_s += run_s * _likely_runs(own, asked)
        is_searched = any(row.run_id in asked.searched for own in needed.values() for row in own)
        return between_text(likely_s, most_s) if is_searched else time_text(most_s)


def _run_seconds(cell: Cell, seconds: float | None) -> float | None:
    """Seconds for a run of the cell that has not ended, on average; None if no run was timed, or
    all have ended.
    """
    left = sum(not row.is_finished for row in cell.rows)
    return seconds / left if seconds is not None and left else None


def _likely_runs(own: Sequence[RunRow], asked: "AskedFor") -> int:
    """How many of these unfinished runs of one cell should be trained; those in training count."""
    todo = sum(row.status == "todo" for row in own)
    likely = asked.likely.get(cell_id(own[0].spec), todo)
    return min(likely, todo) + len(own) - todo
