"""Cells as other seeds might have made them, of runs that were trained: every rate keeps its number
of scores, each drawn from the runs of the rate and, with smaller weights, of its neighbours.

The weights are those of prediction.py, without its noise, since a drawn run brings its curve along.
A rate with a single seed would never change if it were drawn from its own runs alone. Rates are
drawn independently, since runs at different rates are different runs.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from recollect.analysis.cells import Cell, Rate
from recollect.analysis.seeds.prediction import neighbour_weight
from recollect.rows import RunRow

if TYPE_CHECKING:  # numpy is loaded where something is drawn: the command line starts without it
    from recollect.analysis.seeds.drawn_windows import Floats

Interval = tuple[float, float]


def resample(cell: Cell, draw: random.Random) -> Cell:
    """Return the same cell with the runs of every rate resampled.

    A run that was drawn twice appears twice. The keys of `scores` count the draws downwards from
    -1, so that they differ from the cell's own seeds.
    """
    scored = cell.scored_rates
    drawn = {
        rate.lr: _resampled(rate, scored[max(0, place - 1) : place], scored[place + 1 :][:1], draw)
        for place, rate in enumerate(scored)
    }
    return replace(cell, rates=tuple(drawn.get(rate.lr, rate) for rate in cell.rates))


def percentile_interval(values: "Sequence[float] | Floats", coverage: float) -> Interval:
    """Return the middle `coverage` of the values, interpolated between neighbours."""
    import numpy as np

    tail = (1 - coverage) / 2
    low, high = np.quantile(values, (tail, 1 - tail))
    return float(low), float(high)


def _resampled(
    rate: Rate, lower: Sequence[Rate], higher: Sequence[Rate], draw: random.Random
) -> Rate:
    """`lower` and `higher` have the next rate with scores, or none."""
    runs, weights = _runs(rate), [1.0] * len(rate.scores)
    for side, is_higher in ((lower, False), (higher, True)):
        for other in side:
            weight = neighbour_weight(rate.lr, other.lr, is_higher) / len(other.scores)
            runs += _runs(other)
            weights += [weight] * len(other.scores)
    drawn = draw.choices(runs, weights, k=len(rate.scores))
    scores = {~place: score for place, (_, score) in enumerate(drawn)}
    return Rate(rate.lr, rate.rows, scores, tuple(row for row, _ in drawn))


def _runs(rate: Rate) -> list[tuple[RunRow, float]]:
    return list(zip(rate.scored, rate.scores.values(), strict=True))
