"""Bootstrap of a cell over seeds: every rate keeps its number of scores, drawn from its own scores
with replacement.

Rates are drawn independently, since runs at different rates are different runs. The draws of a cell
follow from its id: they are the same for every tau and every use, and cells are drawn independently
of each other. NumPy never changes the stream of a RandomState, so the same rows always give the
same numbers.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from recollect.analysis.bands import COVERAGE
from recollect.analysis.cells import Cell, Rate
from recollect.analysis.windows import DIGITS
from recollect.spec.cell import cell_id

if TYPE_CHECKING:  # numpy is loaded where something is drawn: the command line starts without it
    import numpy as np

    from recollect.analysis.seeds.drawn_windows import DrawnWindows, Floats

BOOTSTRAP_SEED = 0
LEAST_SEEDS = 3  # fewer seeds allow too few different draws
# The share of the draws beyond an end of a 95 % interval is then 2.5 % to within 0.1 %. With a few
# hundred draws, a window that about 2.5 % of them have decides by luck where the interval ends.
RESAMPLES = 20_000

Interval = tuple[float, float]


def resample(cell: Cell, draw: random.Random) -> Cell:
    """Return the same cell with the runs of every rate resampled.

    A run that was drawn twice appears twice. The keys of `scores` count the draws downwards from
    -1, so that they differ from the cell's own seeds.
    """
    return replace(cell, rates=tuple(_resampled(rate, draw) for rate in cell.rates))


def percentile_interval(values: "Sequence[float] | Floats", coverage: float = COVERAGE) -> Interval:
    """Return the middle `coverage` of the values, interpolated between neighbours.

    Applied to a statistic of resampled cells, it is the percentile bootstrap interval.
    """
    import numpy as np

    tail = (1 - coverage) / 2
    low, high = np.quantile(values, (tail, 1 - tail))
    return float(low), float(high)


def draw_windows(
    cell: Cell, taus: Sequence[float], resamples: int = RESAMPLES
) -> "list[DrawnWindows] | None":
    """Return the windows of the resampled means at each tau, from the same draws for all; None
    where `draw_means` has none.
    """
    means = draw_means(cell, resamples)
    if means is None:
        return None
    from recollect.analysis.seeds.drawn_windows import find_windows

    lrs = [rate.lr for rate in cell.scored_rates]
    return [find_windows(lrs, means, tau) for tau in taus]


def draw_means(cell: Cell, resamples: int = RESAMPLES) -> "Floats | None":
    """Return resampled means over seeds, (draws, scored rates); None without draws and while a rate
    has fewer than LEAST_SEEDS.
    """
    rates = cell.scored_rates
    if not resamples or not rates or min(len(rate.scores) for rate in rates) < LEAST_SEEDS:
        return None
    import numpy as np

    stream = _stream(cell)
    return np.stack([mean_draws(rate, stream, resamples) for rate in rates], axis=1)


def mean_draws(rate: Rate, stream: "np.random.RandomState", count: int) -> "Floats":
    """Return `count` means, each of as many scores as the rate has, drawn with replacement."""
    import numpy as np

    scores = np.array(list(rate.scores.values()))
    drawn = stream.randint(len(scores), size=(count, len(scores)))
    return np.round(scores[drawn].mean(axis=1), DIGITS)


def _stream(cell: Cell) -> "np.random.RandomState":
    """Return the random numbers that belong to a cell."""
    import numpy as np

    digits = cell_id(cell.rows[0].spec)
    return np.random.RandomState([BOOTSTRAP_SEED, int(digits[:8], 16), int(digits[8:], 16)])


def _resampled(rate: Rate, draw: random.Random) -> Rate:
    if not rate.scores:
        return rate
    own = list(zip(rate.scored, rate.scores.values(), strict=True))
    drawn = draw.choices(own, k=len(own))
    scores = {~place: score for place, (_, score) in enumerate(drawn)}
    return Rate(rate.lr, rate.rows, scores, tuple(row for row, _ in drawn))
