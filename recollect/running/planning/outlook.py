"""What the runs that a cell still lacks may change about its window.

The window of a cell is that of all its planned rates and seeds. Before all of them are trained it
is predicted: each draw fills in the scores that are missing, and the window of every draw is found
as ever (analysis/windows.py). What a missing score may be:

  a rate with some seeds    as one of its seeds, or, with less weight the farther away it is, as
                            one at the nearest tried rate on either side: near an edge seeds differ
  a rate without any        all its seeds as at the nearest tried rate on one side, the nearer the
                            likelier; beyond the last one tried also at chance
  a surprise                one untried rate in a hundred is anything: windows may have holes

plus a noise that is largest for half-learnt scores. The middle CONFIDENCE of the windows' widths is
what is known of the width. How often it is right was measured on stored grids and on made-up ones:
docs/decisions/search-edges.md.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from recollect.analysis import TAU, Cell, Window, find_window, mean_score

CONFIDENCE = 0.9
DRAWS = 200
SEED = 0  # fixed, so that the same rows always ask for the same runs
# Weights of the seeds of the next lower and the next higher rate; one seed of the rate has 1.
# Too small a rate is too small for every seed, too large a one breaks some and spares others.
LOWER, HIGHER = 1.0, 0.3
NEIGHBOUR_DECADES = 0.5  # over which that weight falls by a factor e
BEYOND_DECADES = 0.5  # as far away counts chance beyond the last rate tried
SURPRISE = 0.01
NOISE = 0.5  # standard deviation of a score s between seeds, as a share of s (1 - s)

Scores = tuple[tuple[float, ...], ...]  # by rate


@dataclass(frozen=True)
class Outlook:
    """The window of a whole cell, as far as some of its runs tell."""

    window: Window | None  # of the runs there are
    low: float  # decades: the middle CONFIDENCE of the widths
    high: float
    edge_spread: tuple[float, float]  # the same of the lower and the upper edge: high - low
    doubt: tuple[float, ...]  # by rate: the share of draws with the rarer verdict on it

    @property
    def decades(self) -> float:
        return self.window.decades if self.window else 0.0

    def is_within(self, tolerance: float) -> bool:
        """Whether the width is known so well, with the confidence stated."""
        return self.decades - tolerance <= self.low and self.high <= self.decades + tolerance


def window_outlook(cell: Cell, tau: float = TAU) -> Outlook:
    """Of a cell with some scores."""
    return _outlook(
        tuple(rate.lr for rate in cell.rates),
        # A failed run will never have a score.
        tuple(sum(row.status != "failed" for row in rate.rows) for rate in cell.rates),
        tuple(tuple(rate.scores.values()) for rate in cell.rates),
        cell.chance,
        tau,
    )


@lru_cache(maxsize=4096)  # asked again after every round, of all cells
def _outlook(
    rates: tuple[float, ...],
    planned: tuple[int, ...],
    scores: Scores,
    chance: float,
    tau: float,
) -> Outlook:
    tried = [index for index, own in enumerate(scores) if own]
    found = find_window(
        [rates[index] for index in tried], [mean_score(scores[index]) for index in tried], tau
    )
    possible = [index for index, count in enumerate(planned) if count]
    missing = [_Missing(index, rates, planned, scores, chance) for index in possible]
    draw = random.Random(SEED)
    means = [[rate.draw_mean(draw) for rate in missing] for _ in range(DRAWS)]
    windows = [find_window([rates[index] for index in possible], each, tau) for each in means]
    solved = [window for window in windows if window]
    solving = [sum(each[place] >= tau for each in means) for place in range(len(possible))]
    doubt = dict(zip(possible, (min(n, DRAWS - n) / DRAWS for n in solving), strict=True))
    low, high = _middle([window.decades if window else 0.0 for window in windows])
    return Outlook(
        window=found,
        low=low,
        high=high,
        edge_spread=(
            _spread([math.log10(window.low) for window in solved]),
            _spread([math.log10(window.high) for window in solved]),
        ),
        doubt=tuple(doubt.get(index, 0.0) for index in range(len(rates))),
    )


class _Missing:
    """The scores that one rate lacks: what they may be, with their weights."""

    def __init__(
        self,
        index: int,
        rates: tuple[float, ...],
        planned: tuple[int, ...],
        scores: Scores,
        chance: float,
    ):
        self.own, self.count = scores[index], planned[index] - len(scores[index])
        sides = [
            _nearest(index, range(index - 1, -1, -1), rates, scores, chance),
            _nearest(index, range(index + 1, len(rates)), rates, scores, chance),
        ]
        if self.own:
            pairs = [(score, 1.0) for score in self.own] + [
                (score, weight * math.exp(-away / NEIGHBOUR_DECADES) / len(there))
                for weight, (there, away) in zip((LOWER, HIGHER), sides, strict=True)
                for score in there
            ]
            self.values, self.weights = zip(*pairs, strict=True)
        else:
            self.sides, self.nearness = [there for there, _ in sides], [1 / d for _, d in sides]

    def draw_mean(self, draw: random.Random) -> float:
        """The mean over all seeds of the rate."""
        if self.count <= 0:
            return mean_score(self.own)
        if self.own:
            found = draw.choices(self.values, self.weights, k=self.count)
        elif draw.random() < SURPRISE:
            found = [draw.random()] * self.count
        else:
            found = draw.choices(draw.choices(self.sides, self.nearness)[0], k=self.count)
        return mean_score((*self.own, *(_noisy(score, draw) for score in found)))


def _nearest(
    index: int,
    others: Sequence[int],
    rates: tuple[float, ...],
    scores: Scores,
    chance: float,
) -> tuple[tuple[float, ...], float]:
    """The scores of the first tried rate among `others`, and its distance in decades."""
    for other in others:
        if scores[other]:
            return scores[other], abs(math.log10(rates[other] / rates[index]))
    return (chance,), BEYOND_DECADES


def _noisy(score: float, draw: random.Random) -> float:
    return min(1.0, max(0.0, draw.gauss(score, NOISE * score * (1 - score))))


def _middle(values: Sequence[float]) -> tuple[float, float]:
    """The middle CONFIDENCE of the values."""
    ordered = sorted(values)
    tail = int((1 - CONFIDENCE) / 2 * len(ordered))
    return ordered[tail], ordered[-1 - tail]


def _spread(values: Sequence[float]) -> float:
    if not values:
        return 0.0
    low, high = _middle(values)
    return high - low
