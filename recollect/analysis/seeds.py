"""How much of a window is luck of the seed: the window of every seed alone, and a bootstrap over seeds."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.analysis.cells import Cell
from recollect.analysis.windows import TAU, find_window

RESAMPLES = 1000
BOOTSTRAP_SEED = 0  # fixed, so that the same rows always give the same page
COVERAGE = 0.95


@dataclass(frozen=True)
class SeedSpread:
    """Window widths in decades; a seed that never reaches tau has width 0."""

    seeds: int
    low: float  # the narrowest window of a single seed
    high: float
    interval: tuple[float, float] | None  # 95 % bootstrap interval of the mean's window; None below three seeds


def seed_spread(cell: Cell, tau: float = TAU) -> SeedSpread | None:
    """The spread over the seeds of a cell, or None before any run has a score."""
    seeds = sorted({seed for rate in cell.rates for seed in rate.scores})
    if not seeds:
        return None
    alone = [_decades(cell, [seed], tau) for seed in seeds]
    return SeedSpread(len(seeds), min(alone), max(alone), _bootstrap(cell, seeds, tau) if len(seeds) >= 3 else None)


def _bootstrap(cell: Cell, seeds: Sequence[int], tau: float) -> tuple[float, float]:
    draw = random.Random(BOOTSTRAP_SEED)
    samples = [tuple(sorted(draw.choices(seeds, k=len(seeds)))) for _ in range(RESAMPLES)]
    # Few seeds have few multisets (ten for three seeds): each is worked out once.
    width = {sample: _decades(cell, sample, tau) for sample in set(samples)}
    widths = sorted(width[sample] for sample in samples)
    tail = int((1 - COVERAGE) / 2 * RESAMPLES)
    return widths[tail], widths[-1 - tail]


def _decades(cell: Cell, seeds: Sequence[int], tau: float) -> float:
    """Width of the window of the mean over `seeds`, which may repeat; rates none of them has finished are left out."""
    means: dict[float, float] = {}
    for rate in cell.rates:
        scores = [rate.scores[seed] for seed in seeds if seed in rate.scores]
        if scores:
            means[rate.lr] = math.fsum(scores) / len(scores)
    window = find_window(list(means), list(means.values()), tau)
    return window.decades if window else 0.0
