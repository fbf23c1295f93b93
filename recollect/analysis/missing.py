"""What is not there yet: planned and finished runs of every cell, and the rates that stay empty."""

from collections.abc import Iterable
from dataclasses import dataclass

from recollect.analysis.cells import Cell
from recollect.analysis.summary import count_statuses
from recollect.analysis.wording import count_text, rate_text


@dataclass(frozen=True)
class Missing:
    """The counts of one cell; what is planned and has no score is missing."""

    cell: Cell
    planned: int
    scored: int  # done or diverged, with a score
    failed: int
    running: int
    todo: int
    empty_rates: tuple[float, ...]  # planned rates without a single score

    @property
    def runs(self) -> int:
        return self.planned - self.scored

    @property
    def is_complete(self) -> bool:
        return self.runs == 0


def find_missing(cells: Iterable[Cell]) -> list[Missing]:
    """One entry per cell, complete ones included, in the same order."""
    return [_missing(cell) for cell in cells]


def missing_text(missing: Iterable[Missing]) -> str:
    """All cells in one sentence: how many runs lack a result, and in how many cells; empty if none
    does.
    """
    lacking = [entry for entry in missing if not entry.is_complete]
    if not lacking:
        return ""
    runs, planned = sum(entry.runs for entry in lacking), sum(entry.planned for entry in lacking)
    parts = [
        (name, sum(getattr(entry, name) for entry in lacking))
        for name in ("todo", "running", "failed")
    ]
    states = ", ".join(f"{count} {name}" for name, count in parts if count)
    empty = sorted({rate for entry in lacking for rate in entry.empty_rates})
    where = f"; nothing yet at {', '.join(map(rate_text, empty))}" if 0 < len(empty) <= 6 else ""
    return (
        f"{runs:,} of {count_text(planned, 'run')} without a result in "
        f"{count_text(len(lacking), 'cell')} ({states}){where}."
    )


def _missing(cell: Cell) -> Missing:
    counts = count_statuses(cell.rows)
    empty = tuple(rate.lr for rate in cell.rates if not rate.scores)
    return Missing(
        cell,
        len(cell.rows),
        cell.scored_runs,
        counts["failed"],
        counts["running"],
        counts["todo"],
        empty,
    )
