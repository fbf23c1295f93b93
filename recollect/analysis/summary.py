"""One line per cell: the best rate, the window around it, the luck that a sparse grid needs, the
steps until it is solved; and what is missing.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recollect.analysis.cells import Cell, Rate
from recollect.analysis.curves import Curves, steps_to_solve
from recollect.analysis.seeds import SeedSpread, seed_spread
from recollect.analysis.windows import TAU, Window, grid_luck
from recollect.analysis.wording import count_text, rate_text
from recollect.rows import STATUSES, RunRow, Status


@dataclass(frozen=True)
class CellSummary:
    """The measures of one cell; what needs a finished run is None before there is one."""

    cell: Cell
    tau: float
    best: Rate | None
    window: Window | None
    spread: SeedSpread | None
    luck: float  # G(4) over the default search range
    solved_seeds: int  # at the best rate, of len(best.scores)
    steps_to_solve: float | None  # at the best rate, median over seeds


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


def remaining_s(cells: Sequence[Cell]) -> list[float | None]:
    """Seconds of training that each cell still needs, by what its own finished runs took, or else
    by the time of a step in all the others; None before any run has ended. Runs that train side by
    side end sooner.
    """
    timed = [row for cell in cells for row in cell.rows if row.wall_s and row.steps]
    if not timed:
        return [None for _ in cells]
    step_s = sum(row.wall_s or 0.0 for row in timed) / sum(row.steps or 0 for row in timed)
    return [_cell_remaining_s(cell, step_s) for cell in cells]


def _cell_remaining_s(cell: Cell, step_s: float) -> float:
    left = [row for row in cell.rows if not row.is_finished]
    ended = [row.wall_s for row in cell.rows if row.has_result and row.wall_s]
    if ended:
        return len(left) * sum(ended) / len(ended)
    return step_s * sum(int(row.spec["train"].get("steps", 0)) for row in left)


def summarise(cells: Sequence[Cell], curves: Curves, tau: float = TAU) -> tuple[CellSummary, ...]:
    """One summary per cell, in the same order."""
    return tuple(_summary(cell, curves, tau) for cell in cells)


def count_statuses(rows: Sequence[RunRow]) -> dict[Status, int]:
    """The number of runs at each status, zeros included; the sum is the number of planned runs."""
    found = Counter(row.status for row in rows)
    return {status: found[status] for status in STATUSES}


def find_missing(cells: Iterable[Cell]) -> list[Missing]:
    """One entry per cell, complete ones included, in the same order."""
    return [_missing(cell) for cell in cells]


def missing_text(missing: Iterable[Missing]) -> str:
    """How many runs lack a result, and in how many cells, as a sentence; empty if none does."""
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


def _summary(cell: Cell, curves: Curves, tau: float) -> CellSummary:
    best, window = cell.best, cell.window(tau)
    return CellSummary(
        cell=cell,
        tau=tau,
        best=best,
        window=window,
        spread=seed_spread(cell, tau),
        luck=grid_luck(window),
        solved_seeds=sum(score >= tau for score in best.scores.values()) if best else 0,
        steps_to_solve=steps_to_solve(best, curves, tau) if best else None,
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
