"""One summary per cell: the best rate, the window around it, the luck that a sparse grid needs, the
steps until the task is solved; and the number of missing runs.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from recollect.analysis.cells import Cell, Rate
from recollect.analysis.curves import Curves, steps_to_solve
from recollect.analysis.seeds import SeedSpread, seed_spread
from recollect.analysis.settings import DEPTH, WIDTH, get_setting
from recollect.analysis.windows import TAU, Window, grid_luck
from recollect.analysis.wording import count_text, rate_text
from recollect.rows import STATUSES, RunRow, Status

# The time of a step grows with this power of the width: the median of 20 mixers, measured in
# docs/decisions/time-by-width.md.
WIDTH_POWER = 1.1


@dataclass(frozen=True)
class CellSummary:
    """The measures of one cell; those that need a finished run are None until there is one."""

    cell: Cell
    tau: float
    best: Rate | None
    window: Window | None
    luck: float  # G(4) over the default search range
    solved_seeds: int  # at the best rate, out of len(best.scores)
    steps_to_solve: float | None  # at the best rate, median over seeds

    @cached_property
    def spread(self) -> SeedSpread | None:
        """Its interval takes about 20 ms to draw, so it is drawn where it is shown."""
        return seed_spread(self.cell, self.tau)


@dataclass(frozen=True)
class Missing:
    """The run counts of one cell; a planned run without a score is missing."""

    cell: Cell
    planned: int
    scored: int  # done or diverged, with a score
    failed: int
    running: int
    todo: int
    empty_rates: tuple[float, ...]  # planned rates that have no score at all

    @property
    def runs(self) -> int:
        return self.planned - self.scored

    @property
    def is_complete(self) -> bool:
        return self.runs == 0


def summarise(cells: Sequence[Cell], curves: Curves, tau: float = TAU) -> tuple[CellSummary, ...]:
    """Return one summary per cell, in the same order."""
    return tuple(_summary(cell, curves, tau) for cell in cells)


def count_statuses(rows: Sequence[RunRow]) -> dict[Status, int]:
    """Return the number of runs at each status, zeros included; they add up to the planned runs."""
    found = Counter(row.status for row in rows)
    return {status: found[status] for status in STATUSES}


def find_missing(cells: Iterable[Cell]) -> list[Missing]:
    """Return one entry per cell, including complete cells, in the same order."""
    return [_missing(cell) for cell in cells]


def missing_text(missing: Iterable[Missing]) -> str:
    """Return how many runs, in how many cells, lack a result, as a sentence; empty if none does."""
    lacking = [entry for entry in missing if not entry.is_complete]
    if not lacking:
        return ""
    runs, planned = sum(entry.runs for entry in lacking), sum(entry.planned for entry in lacking)
    parts = [
        (name, sum(getattr(entry, name) for entry in lacking))
        for name in ("todo", "running", "failed")
    ]
    states = ", ".join(f"{count} {name}" for name, count in parts if count)
    why = f" ({states})" if states else ""  # a run may have ended and have lost its curve
    empty = sorted({rate for entry in lacking for rate in entry.empty_rates})
    where = f"; nothing yet at {', '.join(map(rate_text, empty))}" if 0 < len(empty) <= 6 else ""
    return (
        f"{runs:,} of {count_text(planned, 'run')} without a result in "
        f"{count_text(len(lacking), 'cell')}{why}{where}."
    )


def _summary(cell: Cell, curves: Curves, tau: float) -> CellSummary:
    best, window = cell.best, cell.window(tau)
    return CellSummary(
        cell=cell,
        tau=tau,
        best=best,
        window=window,
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


# ---- time left ----


@dataclass(frozen=True)
class _Pace:
    """Time and steps of the runs that have begun."""

    wall_s: float = 0.0  # seconds of the ended runs
    work: float = 0.0  # steps of the ended runs, each times the size of its model and batch
    planned: int = 0  # planned steps of the runs that have begun
    made: int = 0  # steps these runs made; for a run that still trains, its planned steps

    def __add__(self, other: "_Pace") -> "_Pace":
        return _Pace(
            self.wall_s + other.wall_s,
            self.work + other.work,
            self.planned + other.planned,
            self.made + other.made,
        )


def remaining_s(cells: Sequence[Cell]) -> list[float | None]:
    """Return the seconds of training that each cell still needs; None before any run has ended.

    The time of a step is taken from the cell's own ended runs; without any, from those of its
    mixer; otherwise from all runs, in proportion to the size. A run that has not begun is expected
    to end as early as the runs that have. Runs that train side by side end sooner than estimated
    here.
    """
    paces = [_pace(cell) for cell in cells]
    by_mixer: dict[str, _Pace] = {}
    for cell, pace in zip(cells, paces, strict=True):
        by_mixer[cell.mixer] = by_mixer.get(cell.mixer, _Pace()) + pace
    whole = sum(by_mixer.values(), _Pace())
    return [
        _cell_remaining_s(cell, [pace, by_mixer[cell.mixer]], whole)
        for cell, pace in zip(cells, paces, strict=True)
    ]


def _cell_remaining_s(cell: Cell, own: Sequence[_Pace], whole: _Pace) -> float | None:
    """`own` is the pace of the cell, then the pace of its mixer."""
    timed = next((pace for pace in (*own, whole) if pace.work), None)
    if timed is None:
        return None
    begun = next((pace for pace in own if pace.planned), _Pace(planned=1, made=1))
    share = begun.made / begun.planned
    left = sum(
        _planned(row) - row.steps if row.steps else share * _planned(row)
        for row in cell.rows
        if not row.is_finished
    )
    return left * _size(cell) * timed.wall_s / timed.work


def _pace(cell: Cell) -> _Pace:
    timed = [row for row in cell.rows if row.wall_s and row.steps]
    begun = [row for row in cell.rows if row.steps and row.status != "failed"]
    return _Pace(
        sum(row.wall_s or 0.0 for row in timed),
        _size(cell) * sum(row.steps or 0 for row in timed),
        sum(map(_planned, begun)),
        sum((row.steps or 0) if row.has_result else _planned(row) for row in begun),
    )


def _size(cell: Cell) -> float:
    """Return roughly what the time of a step is proportional to."""
    row = cell.rows[0]
    # Tasks made of strings call the length of a row its context.
    length = get_setting(row, "task.length") or get_setting(row, "task.context", 1)
    tokens = get_setting(row, "train.batch", 1) * length
    return float(tokens * get_setting(row, DEPTH, 1) * get_setting(row, WIDTH, 1) ** WIDTH_POWER)


def _planned(row: RunRow) -> int:
    return int(row.spec["train"].get("steps", 0))
