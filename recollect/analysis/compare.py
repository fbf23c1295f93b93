"""Comparison of two sweeps: the cells that both have, the difference of their best scores, and the
windows that moved.

The 95 % interval of the difference of two best means is Welch's (Student's t with the degrees of
freedom of Welch and Satterthwaite); a difference counts only if its interval excludes zero. With a
single seed on a side there is no interval, and nothing is called a difference.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from recollect.analysis.bands import COVERAGE, deviation, student
from recollect.analysis.cells import Cell, Rate, group_cells
from recollect.analysis.seeds import Interval, SeedSpread, seed_spread
from recollect.analysis.settings import canonical, cell_settings
from recollect.analysis.windows import TAU, Window
from recollect.rows import RunRow

Significance = Literal["higher", "lower", "within seed noise", "unknown"]


@dataclass(frozen=True)
class WindowShift:
    """A window in both sweeps; distances are in decades, positive towards larger rates."""

    first: Window | None
    second: Window | None
    low_by: float | None  # None unless both have a window
    high_by: float | None
    moved: bool | None  # None if a side has fewer than three seeds, so that the noise is unknown


@dataclass(frozen=True)
class CellDifference:
    """A cell that both sweeps have; the difference is the second's value minus the first's."""

    name: str
    first: Cell
    second: Cell
    difference: float | None  # of the best means; None until both sides have a result
    interval: Interval | None
    verdict: Significance
    window: WindowShift


@dataclass(frozen=True)
class Comparison:
    """The cells of both sweeps, and the cells of one sweep only."""

    both: tuple[CellDifference, ...]
    only_first: tuple[Cell, ...]
    only_second: tuple[Cell, ...]


def compare_sweeps(
    first: Sequence[RunRow],
    second: Sequence[RunRow],
    apart_from: Collection[str] = (),
    tau: float = TAU,
) -> Comparison:
    """Match cells by all settings except the flat keys `apart_from`, in which the sweeps differ,
    and compare them. If several cells differ only in those keys, the first of each sweep is
    compared.
    """
    left, right = _by_settings(first, apart_from), _by_settings(second, apart_from)
    return Comparison(
        tuple(_difference(cell, right[key], tau) for key, cell in left.items() if key in right),
        tuple(cell for key, cell in left.items() if key not in right),
        tuple(cell for key, cell in right.items() if key not in left),
    )


def mean_difference(first: Rate, second: Rate) -> tuple[float, Interval | None]:
    """Return the second mean minus the first, and Welch's interval, or None for a single seed."""
    difference = second.mean - first.mean
    sides = [list(rate.scores.values()) for rate in (first, second)]
    if any(len(scores) < 2 for scores in sides):
        return difference, None
    parts = [deviation(scores) ** 2 / len(scores) for scores in sides]
    variance = sum(parts)
    if variance == 0:
        return difference, (difference, difference)
    freedom = variance**2 / sum(
        part**2 / (len(scores) - 1) for part, scores in zip(parts, sides, strict=True)
    )
    reach = student(freedom) * math.sqrt(variance)
    return difference, (difference - reach, difference + reach)


def _by_settings(rows: Sequence[RunRow], apart_from: Collection[str]) -> dict[str, Cell]:
    found: dict[str, Cell] = {}
    for cell in group_cells(rows):
        settings = cell_settings(cell.rows[0].spec)
        found.setdefault(
            canonical({key: entry for key, entry in settings.items() if key not in apart_from}),
            cell,
        )
    return found


def _difference(first: Cell, second: Cell, tau: float) -> CellDifference:
    shift = _shift(first, second, tau)
    if first.best is None or second.best is None:
        return CellDifference(first.name, first, second, None, None, "unknown", shift)
    difference, interval = mean_difference(first.best, second.best)
    return CellDifference(
        first.name, first, second, difference, interval, _significance(interval), shift
    )


def _significance(interval: Interval | None) -> Significance:
    if interval is None:
        return "unknown"
    return "higher" if interval[0] > 0 else "lower" if interval[1] < 0 else "within seed noise"


def _shift(first: Cell, second: Cell, tau: float) -> WindowShift:
    left, right = first.window(tau), second.window(tau)
    spreads = seed_spread(first, tau), seed_spread(second, tau)
    if left is None or right is None:
        return WindowShift(left, right, None, None, _appeared(*spreads))
    low_by, high_by = (
        math.log10(there) - math.log10(here)
        for here, there in ((left.low, right.low), (left.high, right.high))
    )
    return WindowShift(
        left, right, low_by, high_by, _moved((left, spreads[0]), (right, spreads[1]))
    )


def _moved(
    first: tuple[Window, SeedSpread | None], second: tuple[Window, SeedSpread | None]
) -> bool | None:
    """Whether the intervals of one of the edges are disjoint."""
    here, there = _edges(*first), _edges(*second)
    if here is None or there is None:
        return None
    return any(
        one[1] < other[0] or other[1] < one[0] for one, other in zip(here, there, strict=True)
    )


def _edges(window: Window, spread: SeedSpread | None) -> tuple[Interval, Interval] | None:
    """Return the intervals of both edges; an edge at the grid's end may lie anywhere beyond it."""
    if spread is None or spread.low_edge is None or spread.high_edge is None:
        return None
    low = (0.0, spread.low_edge[1]) if window.open_low else spread.low_edge
    high = (spread.high_edge[0], math.inf) if window.open_high else spread.high_edge
    return low, high


def _appeared(first: SeedSpread | None, second: SeedSpread | None) -> bool | None:
    """Whether one side has a window in nearly every draw of seeds and the other in nearly none."""
    shares = [
        spread.solved_share
        for spread in (first, second)
        if spread and spread.solved_share is not None
    ]
    return max(shares) >= COVERAGE and min(shares) <= 1 - COVERAGE if len(shares) == 2 else None
