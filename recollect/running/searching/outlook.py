"""How much the missing runs of a cell may change its window and its best score.

Window and best score are defined over all planned rates and seeds of the cell. Until all of them
are trained, both are predicted: they are computed for every draw of the missing scores
(analysis/seeds/prediction.py). The interval that holds the middle CONFIDENCE of these values is
known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from recollect.analysis import TAU, Cell, Window, find_window
from recollect.analysis.seeds.prediction import DRAWS, Prediction, middle, predict, tail_of


@dataclass(frozen=True)
class WindowOutlook:
    """The window of a complete cell, as predicted from some of its runs."""

    window: Window | None  # of the trained runs
    low: float  # decades; low to high holds the middle CONFIDENCE of the widths
    high: float
    is_open: bool  # whether it may reach an end of the grid
    edge_spread: tuple[float, float]  # high - low of the lower and of the upper edge, in decades
    doubt: tuple[float, ...]  # by rate: the share of draws with the rarer verdict on it

    @property
    def decades(self) -> float:
        return self.window.decades if self.window else 0.0

    def is_within(self, tolerance: float) -> bool:
        """Whether the width is known to +-tolerance decades, with confidence CONFIDENCE."""
        return self.decades - tolerance <= self.low and self.high <= self.decades + tolerance


@dataclass(frozen=True)
class BestOutlook:
    """The best mean score of a complete cell, as predicted from some of its runs."""

    best: float  # of the trained runs
    low: float  # low to high holds the middle CONFIDENCE of the best scores
    high: float
    wins: tuple[float, ...]  # by rate: the share of draws in which it is the best

    def is_within(self, tolerance: float) -> bool:
        """Whether the score is known to +-tolerance, with confidence CONFIDENCE."""
        return self.best - tolerance <= self.low and self.high <= self.best + tolerance


def window_outlook(cell: Cell, tau: float = TAU) -> WindowOutlook:
    """Predict the window of a cell. Requires a cell with at least one score."""
    return _window_outlook(predict(cell), len(cell.rates), cell.window(tau), tau)


def best_outlook(cell: Cell) -> BestOutlook:
    """Predict the best score of a cell. Requires a cell with at least one score."""
    return _best_outlook(
        predict(cell), len(cell.rates), max(rate.mean for rate in cell.scored_rates)
    )


@lru_cache(maxsize=4096)
def _window_outlook(
    predicted: Prediction, count: int, found: Window | None, tau: float
) -> WindowOutlook:
    windows = [find_window(predicted.rates, means, tau) for means in predicted.means]
    solved = [window for window in windows if window]
    solving = [sum(mean >= tau for mean in means) for means in zip(*predicted.means, strict=True)]
    doubts = [min(number, DRAWS - number) / DRAWS for number in solving]
    low, high = middle([window.decades if window else 0.0 for window in windows])
    return WindowOutlook(
        window=found,
        low=low,
        high=high,
        is_open=sum(window.is_open for window in solved) > tail_of(DRAWS),
        edge_spread=(
            _spread([math.log10(window.low) for window in solved]),
            _spread([math.log10(window.high) for window in solved]),
        ),
        doubt=_by_rate(predicted, doubts, count),
    )


@lru_cache(maxsize=4096)
def _best_outlook(predicted: Prediction, count: int, found: float) -> BestOutlook:
    bests = [max(means) for means in predicted.means]
    low, high = middle(bests)
    wins = [
        sum(mean == best for mean, best in zip(means, bests, strict=True)) / DRAWS
        for means in zip(*predicted.means, strict=True)
    ]
    return BestOutlook(found, low, high, _by_rate(predicted, wins, count))


def _by_rate(predicted: Prediction, values: Sequence[float], count: int) -> tuple[float, ...]:
    """One value for each of the `count` rates of the cell; 0 for rates that cannot have a score."""
    found = dict(zip(predicted.places, values, strict=True))
    return tuple(found.get(index, 0.0) for index in range(count))


def _spread(values: Sequence[float]) -> float:
    if not values:
        return 0.0
    low, high = middle(values)
    return high - low
