"""The window of a cell if it were trained again with other seeds.

Each draw makes new scores at every rate, as many as there are seeds, from the same values and with
the same noise as prediction.py draws a missing run: from the scores of the rate and, with smaller
weights, from those of its neighbours. Three seeds that agree do not show that a fourth would, so
drawing from the rate's own scores alone (the bootstrap) makes intervals far too narrow. How often
intervals hold was measured: docs/decisions/intervals-over-seeds.md.

Rates that a search left untried are drawn from their neighbours, so searched cells have intervals,
too. The draws follow from the id of a cell: they are the same for every tau and every use, and
cells are drawn independently of each other. NumPy never changes the stream of a RandomState, so the
same rows always give the same numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recollect.analysis.cells import Cell
from recollect.analysis.seeds.prediction import NOISE, SURPRISE, Pool, pools_of
from recollect.analysis.seeds.resampling import Interval, percentile_interval
from recollect.analysis.windows import DIGITS, Window, find_window
from recollect.spec.cell import cell_id

if TYPE_CHECKING:  # numpy is loaded where something is drawn: the command line starts without it
    import numpy as np

    from recollect.analysis.seeds.drawn_windows import DrawnWindows, Floats

DRAW_SEED = 0
# Few draws lie beyond the ends of an interval, so many are needed: with a few hundred, luck would
# decide where it ends.
DRAWS = 20_000
# The share of the draws in a 95 % interval. It is larger because the draws rest on as few seeds as
# the cell has: the middle 95 % of them hold the windows of 83 to 95 % of sets of other seeds.
MIDDLE = 0.99
LEAST_SEEDS = 3  # fewer do not show how far apart seeds are
NEAR = 1.0  # decades: an untried rate can be drawn if a tried one is at most as far away


@dataclass(frozen=True)
class Draw:
    """The mean scores of a cell with other seeds."""

    rates: Sequence[float]
    means: Sequence[float]
    tried: Sequence[bool]  # by rate: whether a run of the cell has a score there
    is_whole: bool  # whether untried rates could be drawn, so that there may be a window

    @property
    def best(self) -> float:
        return max(mean for mean, tried in zip(self.means, self.tried, strict=True) if tried)

    def window(self, tau: float) -> Window | None:
        return find_window(self.rates, self.means, tau)


def draw_cell(cell: Cell, draws: int) -> list[Draw]:
    """Return so many draws of a cell; none if it has no score."""
    scored = {rate.lr for rate in cell.scored_rates}
    if not scored:
        return []
    rates, means = _draw_all(cell, draws)
    tried, is_whole = [rate in scored for rate in rates], _is_tried_enough(cell)
    return [Draw(rates, drawn, tried, is_whole) for drawn in means.tolist()]


def draw_windows(
    cell: Cell, taus: Sequence[float], draws: int = DRAWS
) -> "list[DrawnWindows] | None":
    """Return the windows of the drawn means at each tau, from the same draws for all; None where
    `draw_means` has none.
    """
    found = draw_means(cell, draws)
    if found is None:
        return None
    from recollect.analysis.seeds.drawn_windows import find_windows

    rates, means = found
    return [find_windows(rates, means, tau) for tau in taus]


def interval_of(values: "Floats") -> Interval:
    """Return where a value lies with other seeds (95 %), from its draws."""
    return percentile_interval(values, MIDDLE)


def draw_means(cell: Cell, draws: int = DRAWS) -> "tuple[tuple[float, ...], Floats] | None":
    """Return the rates drawn and the means over seeds, (draws, rates); None without draws, if fewer
    than LEAST_SEEDS seeds are planned at a rate, and while a rate has no tried one near.
    """
    return _draw_all(cell, draws) if draws and _is_tried_enough(cell) else None


def _draw_all(cell: Cell, draws: int) -> "tuple[tuple[float, ...], Floats]":
    import numpy as np

    pools, stream = pools_of(cell), _stream(cell)
    means = np.stack([_draw_means(pool, stream, draws) for pool in pools], axis=1)
    return tuple(pool.lr for pool in pools), means


def _is_tried_enough(cell: Cell) -> bool:
    """Whether all rates can be drawn: with enough seeds each, and a tried rate near."""
    tried = [math.log10(rate.lr) for rate in cell.scored_rates]
    return all(
        len(rate.rows) >= LEAST_SEEDS and any(abs(math.log10(rate.lr) - at) <= NEAR for at in tried)
        for rate in cell.rates
    )


def _draw_means(pool: Pool, stream: "np.random.RandomState", draws: int) -> "Floats":
    """Draw the mean score at a rate, each time over new seeds."""
    import numpy as np

    shape = (draws, pool.planned)
    if pool.own:
        found = _choose(pool.values, pool.weights, stream, shape)
    else:
        side = _choose((0.0, 1.0), pool.nearness, stream, (draws, 1))
        low, high = (_choose(own, [1.0] * len(own), stream, shape) for own in pool.sides)
        found = np.where(side == 0, low, high)
        surprised = stream.random_sample((draws, 1)) < SURPRISE
        found = np.where(surprised, stream.random_sample((draws, 1)), found)
    if pool.lost:
        found = np.where(stream.random_sample(shape) < pool.lost, pool.chance, found)
    deviation = NOISE * np.abs(found - pool.chance) / (1 - pool.chance) * (1 - found)
    noisy = np.clip(found + deviation * stream.standard_normal(shape), 0.0, 1.0)
    return np.round(noisy.mean(axis=1), DIGITS)


def _choose(
    values: Sequence[float],
    weights: Sequence[float],
    stream: "np.random.RandomState",
    shape: tuple[int, int],
) -> "Floats":
    """Draw values in proportion to their weights."""
    import numpy as np

    shares = np.cumsum(weights) / sum(weights)
    places = np.searchsorted(shares, stream.random_sample(shape), side="right")
    return np.array(values)[np.minimum(places, len(values) - 1)]


def _stream(cell: Cell) -> "np.random.RandomState":
    """Return the random numbers that belong to a cell."""
    import numpy as np

    digits = cell_id(cell.rows[0].spec)
    return np.random.RandomState([DRAW_SEED, int(digits[:8], 16), int(digits[8:], 16)])
