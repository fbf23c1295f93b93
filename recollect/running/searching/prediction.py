"""What the runs that a cell still lacks may score: draws of the mean scores of a whole cell.

Each draw fills in the scores that are missing. What one may be:

  a rate with some seeds    as one of its seeds, or, with less weight the farther away it is, as
                            one at the nearest tried rate on either side: near an edge seeds differ
  a rate without any        all its seeds as at the nearest tried rate on one side, the nearer the
                            likelier; beyond the last one tried also at chance
  a surprise                one untried rate in a hundred is anything: windows may have holes

plus a noise that is largest for half-learnt scores and zero for guessing. How often that is right
was measured on stored grids and on made-up ones: docs/decisions/search-edges.md, search-best.md.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from recollect.analysis import Cell, mean_score

CONFIDENCE = 0.9  # of what is said to be known: the middle of the draws
DRAWS = 200
SEED = 0  # fixed, so that the same rows always ask for the same runs
# Weights of the seeds of the next lower and the next higher rate; one seed of the rate has 1.
# Too small a rate is too small for every seed, too large a one breaks some and spares others.
LOWER, HIGHER = 1.0, 0.3
NEIGHBOUR_DECADES = 0.5  # over which that weight falls by a factor e
BEYOND_DECADES = 0.5  # as far away counts chance beyond the last rate tried
SURPRISE = 0.01
# Standard deviation between seeds of a score s, as a share of its distance from chance,
# |s - chance| / (1 - chance), times what is not learnt yet, 1 - s.
NOISE = 0.5

Scores = tuple[tuple[float, ...], ...]  # by rate


@dataclass(frozen=True, eq=False)  # each is made once
class Prediction:
    """The mean score at each rate of a cell, drawn DRAWS times."""

    places: tuple[int, ...]  # of the cell's rates: those that have or may have a score
    rates: tuple[float, ...]  # at these places
    means: tuple[tuple[float, ...], ...]  # a draw each


def predict(cell: Cell) -> Prediction:
    """Of a cell with some scores."""
    return _predict(
        tuple(rate.lr for rate in cell.rates),
        # A failed run will never have a score.
        tuple(sum(row.status != "failed" for row in rate.rows) for rate in cell.rates),
        tuple(tuple(rate.scores.values()) for rate in cell.rates),
        cell.chance,
    )


def middle(values: Sequence[float]) -> tuple[float, float]:
    """The ends of the middle CONFIDENCE of the values."""
    ordered = sorted(values)
    tail = int((1 - CONFIDENCE) / 2 * len(ordered))
    return ordered[tail], ordered[-1 - tail]


@lru_cache(maxsize=4096)  # asked again after every round, of all cells
def _predict(
    rates: tuple[float, ...], planned: tuple[int, ...], scores: Scores, chance: float
) -> Prediction:
    places = tuple(index for index, count in enumerate(planned) if count)
    missing = [_Missing(index, rates, planned, scores, chance) for index in places]
    draw = random.Random(SEED)
    means = tuple(tuple(rate.draw_mean(draw) for rate in missing) for _ in range(DRAWS))
    return Prediction(places, tuple(rates[index] for index in places), means)


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
        self.chance = chance
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
        return mean_score((*self.own, *(_noisy(score, self.chance, draw) for score in found)))


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


def _noisy(score: float, chance: float, draw: random.Random) -> float:
    """Seeds that guess among what stands in the row, and seeds that know all of it, are alike."""
    deviation = NOISE * abs(score - chance) / (1 - chance) * (1 - score)
    return min(1.0, max(0.0, draw.gauss(score, deviation)))
