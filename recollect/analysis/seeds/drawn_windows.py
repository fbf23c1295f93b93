"""The windows of many draws at once: for each draw what `find_window` gives, computed with NumPy.

This module imports numpy, so others import it where they draw. Arrays of runs have one entry per
contiguous run of rates inside tau, ordered by draw and then by rate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from recollect.analysis.windows import AS_GOOD, ROUNDING

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class DrawnWindows:
    """The windows of a cell's draws at one tau."""

    widths: Floats  # decades, one per draw; 0 for a draw without a window
    low: Floats  # edges as rates, one per draw with a window, in the order of the draws
    high: Floats


@dataclass(frozen=True)
class _Runs:
    """Runs of rates inside tau."""

    draw: Indices  # ascending
    first: Indices
    last: Indices
    top: Floats  # the best score of the run

    def keep(self, which: "NDArray[np.bool_]") -> "_Runs":
        return _Runs(self.draw[which], self.first[which], self.last[which], self.top[which])


def find_windows(rates: Sequence[float], means: Floats, tau: float) -> DrawnWindows:
    """Return the windows of `means`, (draws, rates); rates are ascending, as in `find_window`."""
    logs = np.array([math.log10(rate) for rate in rates])
    runs = _good_runs(means, tau)
    low = _edges(logs, means, runs.draw, runs.first, runs.first - 1, tau)
    high = _edges(logs, means, runs.draw, runs.last, runs.last + 1, tau)
    chosen = _choose(runs, high - low, len(means))
    low, high = low[chosen], high[chosen]
    widths = np.zeros(len(means))
    widths[runs.draw[chosen]] = high - low
    return DrawnWindows(widths, 10**low, 10**high)


def _good_runs(means: Floats, tau: float) -> _Runs:
    """Return the runs that contain a rate as good as the best one of their draw."""
    outside = np.pad(means < tau, ((0, 0), (1, 1)), constant_values=True)
    inside = ~outside[:, 1:-1]
    # Ends are found in the order of starts, so the two belong together pair by pair.
    draw, first = np.nonzero(inside & outside[:, :-2])
    _, last = np.nonzero(inside & outside[:, 2:])
    runs = _Runs(draw, first, last, _top_scores(means, draw, first, last))
    # One rate at a time is several times as fast as `means.max(axis=1)`.
    good = reduce(np.maximum, means.T) - AS_GOOD - ROUNDING
    return runs.keep(runs.top >= good[draw])


def _top_scores(means: Floats, draw: Indices, first: Indices, last: Indices) -> Floats:
    """Return the largest score of every run."""
    begin, end = (draw * means.shape[1] + place for place in (first, last + 1))
    # Every other slice lies between two runs; the last one needs no bound at the end of the array.
    slices = np.stack([begin, end], axis=1).ravel()
    return np.maximum.reduceat(means.ravel(), slices[slices < means.size])[::2]


def _edges(
    logs: Floats, means: Floats, draw: Indices, inside: Indices, outside: Indices, tau: float
) -> Floats:
    """Return log10 of the edge between two rates; the rate inside where the grid ends."""
    beyond = np.clip(outside, 0, len(logs) - 1)
    inner, outer = means[draw, inside], means[draw, beyond]
    fall = np.where(beyond == inside, 1.0, inner - outer)
    return logs[inside] + (inner - tau) / fall * (logs[beyond] - logs[inside])


def _choose(runs: _Runs, widths: Floats, draws: int) -> Indices:
    """Return one run per draw: the widest, then the one with the best score, then the middle."""
    places = np.arange(len(widths))
    places = places[widths >= _most(runs.draw, widths, draws) - ROUNDING]
    draw, top = runs.draw[places], runs.top[places]
    places = places[top == _most(draw, top, draws)]
    draw = runs.draw[places]
    tied = np.bincount(draw, minlength=draws)
    number = np.arange(len(places)) - (np.cumsum(tied) - tied)[draw]
    return places[number == (tied[draw] - 1) // 2]


def _most(draw: Indices, values: Floats, draws: int) -> Floats:
    """Return for every run the largest value among the runs of its draw."""
    most = np.full(draws, -np.inf)
    np.maximum.at(most, draw, values)
    return most[draw]
