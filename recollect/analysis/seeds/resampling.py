"""Bootstrap of a cell over seeds: every rate keeps its number of scores, drawn from its own scores
with replacement.

Rates are drawn independently, since runs at different rates are different runs. The generator is
Python's own with a fixed seed, so that the same rows always give the same numbers.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

from recollect.analysis.bands import COVERAGE
from recollect.analysis.cells import Cell, Rate
from recollect.analysis.windows import mean_score

BOOTSTRAP_SEED = 0
LEAST_SEEDS = 3  # fewer seeds allow too few different draws
RESAMPLES = 400  # each end of a 95 % interval is then the tenth draw from the outermost

Interval = tuple[float, float]


def resample(cell: Cell, draw: random.Random) -> Cell:
    """Return the same cell with the runs of every rate resampled.

    A run that was drawn twice appears twice. The keys of `scores` count the draws downwards from
    -1, so that they differ from the cell's own seeds.
    """
    return replace(cell, rates=tuple(_resampled(rate, draw) for rate in cell.rates))


def percentile_interval(values: Sequence[float], coverage: float = COVERAGE) -> Interval:
    """Return the middle `coverage` of the values, interpolated between neighbours as NumPy does.

    Applied to a statistic of resampled cells, it is the percentile bootstrap interval.
    """
    ordered = sorted(values)
    tail = (1 - coverage) / 2
    return _quantile(ordered, tail), _quantile(ordered, 1 - tail)


def draw_means(cell: Cell, resamples: int = RESAMPLES, draws: str = "") -> list[tuple[float, ...]]:
    """Return resampled means over seeds at the scored rates of a cell; no draws while a rate has
    fewer than LEAST_SEEDS. Cells whose draws must be independent need different names `draws`.
    """
    rates = cell.scored_rates
    if not rates or min(len(rate.scores) for rate in rates) < LEAST_SEEDS:
        return []
    draw = random.Random(f"{BOOTSTRAP_SEED} {draws}" if draws else BOOTSTRAP_SEED)
    return list(zip(*(mean_draws(rate, draw, resamples) for rate in rates), strict=True))


def mean_draws(rate: Rate, draw: random.Random, count: int) -> list[float]:
    """Return `count` means, each of as many scores as the rate has, drawn with replacement."""
    scores = list(rate.scores.values())
    return [mean_score(draw.choices(scores, k=len(scores))) for _ in range(count)]


def _resampled(rate: Rate, draw: random.Random) -> Rate:
    if not rate.scores:
        return rate
    own = list(zip(rate.scored, rate.scores.values(), strict=True))
    drawn = draw.choices(own, k=len(own))
    scores = {~place: score for place, (_, score) in enumerate(drawn)}
    return Rate(rate.lr, rate.rows, scores, tuple(row for row, _ in drawn))


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
