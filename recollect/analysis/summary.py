"""One line per cell: the best rate, the window around it, how lucky a sparse grid must be, and how
soon it is solved.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recollect.analysis.cells import Cell, Rate
from recollect.analysis.curves import steps_to_solve
from recollect.analysis.seeds import SeedSpread, seed_spread
from recollect.analysis.windows import TAU, Window, grid_luck
from recollect.rows import STATUSES, Evaluation, RunRow, Status


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


def summarise(
    cells: Sequence[Cell], curves: Mapping[str, Sequence[Evaluation]], tau: float = TAU
) -> tuple[CellSummary, ...]:
    """One summary per cell, in the same order."""
    return tuple(_summary(cell, curves, tau) for cell in cells)


def count_statuses(rows: Sequence[RunRow]) -> dict[Status, int]:
    """How many runs stand at each status; every status is named and the sum is the number of
    planned runs.
    """
    found = Counter(row.status for row in rows)
    return {status: found[status] for status in STATUSES}


def _summary(cell: Cell, curves: Mapping[str, Sequence[Evaluation]], tau: float) -> CellSummary:
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
