"""How much a window depends on the seeds: the window of every seed alone, and a bootstrap.

The bootstrap draws as many seeds as there are, with replacement, a thousand times; each draw gives
the window of the mean over the seeds drawn. The middle 95 % of widths, of lower edges and of upper
edges are the intervals. A draw whose mean never reaches tau has width 0 and no edges.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.analysis.cells import Cell
from recollect.analysis.seeds.resampling import (
    BOOTSTRAP_SEED,
    LEAST_SEEDS,
    Interval,
    percentile_interval,
)
from recollect.analysis.windows import TAU, Window, find_window

RESAMPLES = 1000


@dataclass(frozen=True)
class SeedSpread:
    """Window widths in decades; a seed that never reaches tau has width 0."""

    seeds: int
    low: float  # the narrowest window of a single seed
    high: float
    interval: Interval | None  # 95 % bootstrap interval of the mean's window; None below 3 seeds
    # The same for its edges, as rates; None also where no draw has a window.
    low_edge: Interval | None = None
    high_edge: Interval | None = None
    solved_share: float | None = None  # of the draws; the edges are those of these alone


def seed_spread(cell: Cell, tau: float = TAU) -> SeedSpread | None:
    """The spread over the seeds of a cell, or None before any run has a score."""
    seeds = sorted({seed for rate in cell.rates for seed in rate.scores})
    if not seeds:
        return None
    alone = [_decades(_window(cell, [seed], tau)) for seed in seeds]
    if len(seeds) < LEAST_SEEDS:
        return SeedSpread(len(seeds), min(alone), max(alone), None)
    windows = _bootstrap(cell, seeds, tau)
    solved = [window for window in windows if window]
    return SeedSpread(
        seeds=len(seeds),
        low=min(alone),
        high=max(alone),
        interval=percentile_interval([_decades(window) for window in windows]),
        low_edge=percentile_interval([window.low for window in solved]) if solved else None,
        high_edge=percentile_interval([window.high for window in solved]) if solved else None,
        solved_share=len(solved) / len(windows),
    )


def _bootstrap(cell: Cell, seeds: Sequence[int], tau: float) -> list[Window | None]:
    draw = random.Random(BOOTSTRAP_SEED)
    samples = [tuple(sorted(draw.choices(seeds, k=len(seeds)))) for _ in range(RESAMPLES)]
    # Few seeds have few multisets (ten for three seeds): each is computed once.
    window = {sample: _window(cell, sample, tau) for sample in set(samples)}
    return [window[sample] for sample in samples]


def _window(cell: Cell, seeds: Sequence[int], tau: float) -> Window | None:
    """The window of the mean over `seeds`, which may repeat; rates without their scores are out."""
    means: dict[float, float] = {}
    for rate in cell.rates:
        scores = [rate.scores[seed] for seed in seeds if seed in rate.scores]
        if scores:
            means[rate.lr] = math.fsum(scores) / len(scores)
    return find_window(list(means), list(means.values()), tau)


def _decades(window: Window | None) -> float:
    return window.decades if window else 0.0
