"""Dependence of a window on the seeds: the window of every single seed, and windows of others.

Every draw of other seeds (other_seeds.py) gives means and thereby a window. There are intervals of
the widths, of the lower edges and of the upper edges. A draw whose mean never reaches tau has width
0 and no edges.
"""

from dataclasses import dataclass

from recollect.analysis.cells import Cell
from recollect.analysis.seeds.other_seeds import draw_windows, interval_of
from recollect.analysis.seeds.resampling import Interval
from recollect.analysis.windows import TAU, Window, find_window


@dataclass(frozen=True)
class SeedSpread:
    """Window widths in decades; a seed that never reaches tau has width 0."""

    seeds: int
    low: float  # the narrowest window of a single seed
    high: float
    # Of the width of the mean's window if other seeds were trained, 95 %; None with fewer than
    # three seeds, and while too few rates were tried.
    interval: Interval | None
    # The same for the window's edges, as rates; also None if no draw has a window.
    low_edge: Interval | None = None
    high_edge: Interval | None = None


def seed_spread(cell: Cell, tau: float = TAU) -> SeedSpread | None:
    """Return the spread over the seeds of a cell, or None before any run has a score."""
    seeds = sorted({seed for rate in cell.rates for seed in rate.scores})
    if not seeds:
        return None
    alone = [_decades(_window_of_seed(cell, seed, tau)) for seed in seeds]
    drawn = draw_windows(cell, (tau,))
    if drawn is None:
        return SeedSpread(len(seeds), min(alone), max(alone), None)
    [found] = drawn
    solved = len(found.low)  # draws with a window
    return SeedSpread(
        seeds=len(seeds),
        low=min(alone),
        high=max(alone),
        interval=interval_of(found.widths),
        low_edge=interval_of(found.low) if solved else None,
        high_edge=interval_of(found.high) if solved else None,
    )


def _window_of_seed(cell: Cell, seed: int, tau: float) -> Window | None:
    scores = {rate.lr: rate.scores[seed] for rate in cell.rates if seed in rate.scores}
    return find_window(list(scores), list(scores.values()), tau)


def _decades(window: Window | None) -> float:
    return window.decades if window else 0.0
