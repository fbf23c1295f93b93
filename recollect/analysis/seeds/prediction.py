"""Prediction of scores that were not measured: of missing runs, and of other seeds.

A prediction draws the mean scores of a complete cell: each draw fills in the missing scores. A
score is drawn as follows:

  rate with some seeds      the score of one of its seeds, or of a seed at the nearest tried rate on
                            either side, whose weight falls with its distance: near an edge seeds
                            differ
  rate without seeds        all its seeds as at the nearest tried rate on one side, the nearer the
                            likelier; beyond the last tried rate, chance replaces the missing side
  surprise                  one untried rate in a hundred has any score: windows may have holes
  lost                      between rates at which seeds learn, chance replaces as large a share of
                            the missing scores as the share of runs seen to be lost there

plus noise that is largest for half-learnt scores and zero for guessing. How often the prediction is
right was measured on stored and on synthetic grids: docs/decisions/search-edges.md, search-best.md.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

from recollect.analysis.cells import Cell
from recollect.analysis.windows import mean_score

CONFIDENCE = 0.9  # a value is known within the interval that holds this share of the draws
DRAWS = 200
SEED = 0  # fixed, so that the same rows always lead to the same runs
# Weights of the seeds of the next lower and the next higher rate; each seed of the rate has 1.
# Too small a rate is too small for every seed; too large a rate breaks some seeds but not others.
LOWER, HIGHER = 1.0, 0.3
NEIGHBOUR_DECADES = 0.5  # distance over which that weight falls by a factor e
BEYOND_DECADES = 0.5  # the assumed distance of chance, beyond the last tried rate
SURPRISE = 0.01
# Standard deviation between seeds of a score s, as a share of its distance from chance,
# |s - chance| / (1 - chance), times what is not learnt yet, 1 - s.
NOISE = 0.5

Scores = tuple[tuple[float, ...], ...]  # by rate


@dataclass(frozen=True, eq=False)  # _predict caches them, so identity suffices
class Prediction:
    """The mean score at each rate of a cell, drawn DRAWS times."""

    places: tuple[int, ...]  # indices of the cell's rates that have or may get a score
    rates: tuple[float, ...]  # at these places
    means: tuple[tuple[float, ...], ...]  # by draw, then by place


class _Known(NamedTuple):
    """What a prediction depends on, by rate of the cell."""

    rates: tuple[float, ...]
    planned: tuple[int, ...]  # runs that have or may get a score
    scores: Scores
    chance: float
    lost: tuple[float, ...]  # the share of runs to expect lost

    @classmethod
    def of(cls, cell: Cell) -> Self:
        lost = find_lost(cell)
        return cls(
            tuple(rate.lr for rate in cell.rates),
            # A failed run will never have a score.
            tuple(sum(row.status != "failed" for row in rate.rows) for rate in cell.rates),
            tuple(tuple(rate.scores.values()) for rate in cell.rates),
            _guessing(cell.chance),
            tuple(lost.share if i in lost.between else 0.0 for i in range(len(cell.rates))),
        )


class Lost(NamedTuple):
    """Runs that learn nothing although some seed learns at a lower rate and the same seed at a
    higher one; by rate of the cell.

    A seed that fails at a rate and at all higher ones is not lost: the rate is too large for it. To
    learn is to score in the upper half between chance and the best score.
    """

    seeds: tuple[frozenset[int], ...]
    between: range  # indices of the rates between those at which seeds learn
    share: float  # of such runs among those at these rates


def _guessing(chance: float) -> float:
    """The score of a model that has learnt nothing. With a single pair chance is 1: whoever guesses
    among the values of the row solves the task, and what has learnt nothing scores about 0.
    """
    return chance if chance < 1 else 0.0


def predict(cell: Cell) -> Prediction:
    """Predict the mean scores of a cell. Requires a cell with at least one score."""
    return _predict(_Known.of(cell))


def pools_of_others(cell: Cell) -> list["Pool"]:
    """What other seeds are drawn from, by rate that has or may get a score. Requires a cell with at
    least one score.

    Scores of lost runs are left out. Chance replaces as large a share of what is drawn; with both,
    they would count twice.
    """
    kept = tuple(
        tuple(score for seed, score in rate.scores.items() if seed not in lost)
        for rate, lost in zip(cell.rates, find_lost(cell).seeds, strict=True)
    )
    return _pools(_Known.of(cell)._replace(scores=kept))


def find_lost(cell: Cell) -> Lost:
    """Find the lost runs of a cell. Requires a cell with at least one score."""
    scores, chance = [rate.scores for rate in cell.rates], _guessing(cell.chance)
    half = (max(max(own.values()) for own in scores if own) + chance) / 2
    learning = [i for i, own in enumerate(scores) if own and max(own.values()) > half]
    between = range(learning[0] + 1, learning[-1]) if half > chance else range(0)
    highest = {seed: i for i in learning for seed, score in scores[i].items() if score > half}
    seeds = [
        frozenset(
            seed
            for seed, score in own.items()
            if index in between and score < half and index < highest.get(seed, -1)
        )
        for index, own in enumerate(scores)
    ]
    runs = sum(len(scores[index]) for index in between)
    return Lost(tuple(seeds), between, sum(map(len, seeds)) / runs if runs else 0.0)


def middle(values: Sequence[float]) -> tuple[float, float]:
    """The ends of the interval that holds the middle CONFIDENCE of the values."""
    ordered = sorted(values)
    tail = tail_of(len(ordered))
    return ordered[tail], ordered[-1 - tail]


def tail_of(number: int) -> int:
    """How many of so many draws lie on either side of the middle CONFIDENCE."""
    return int((1 - CONFIDENCE) / 2 * number)


@lru_cache(maxsize=4096)  # called after every round, for all cells
def _predict(known: _Known) -> Prediction:
    pools = _pools(known)
    drawn = [_draw_means(pool) for pool in pools]
    means = tuple(zip(*drawn, strict=True))
    return Prediction(tuple(pool.place for pool in pools), tuple(pool.lr for pool in pools), means)


def _draw_means(pool: "Pool") -> list[float]:
    """Draw the mean score of a rate DRAWS times. Each rate has random numbers of its own: a score
    found at one rate changes nothing that is drawn at rates that do not depend on it.
    """
    draw = random.Random(f"{SEED} {pool.place}")
    return [pool.draw_mean(draw) for _ in range(DRAWS)]


def _pools(known: _Known) -> list["Pool"]:
    return [Pool(index, known) for index, count in enumerate(known.planned) if count]


class Pool:
    """What scores of one rate are drawn from."""

    def __init__(self, place: int, known: _Known):
        rates, scores = known.rates, known.scores
        self.place, self.lr, self.chance = place, rates[place], known.chance
        self.own, self.planned = scores[place], known.planned[place]
        self.lost = known.lost[place]
        sides = [
            _nearest(place, range(place - 1, -1, -1), rates, scores, self.chance),
            _nearest(place, range(place + 1, len(rates)), rates, scores, self.chance),
        ]
        # With scores of its own: the values of one seed, with weights.
        pairs = [(score, 1.0) for score in self.own] + [
            (score, _weight(away, is_higher) / len(there))
            for is_higher, (there, away) in zip((False, True), sides, strict=True)
            for score in there
        ]
        self.values, self.weights = zip(*pairs, strict=True)
        # Without: the side that all seeds are drawn from, with weights.
        self.sides, self.nearness = [there for there, _ in sides], [1 / d for _, d in sides]

    def draw_mean(self, draw: random.Random) -> float:
        """Draw the mean score over all seeds of the rate: the scores it has and missing ones."""
        count = self.planned - len(self.own)
        if count <= 0:
            return mean_score(self.own)
        if self.own:
            found = draw.choices(self.values, self.weights, k=count)
        elif draw.random() < SURPRISE:
            found = [draw.random()] * count
        else:
            found = draw.choices(draw.choices(self.sides, self.nearness)[0], k=count)
        if self.lost:
            found = [self.chance if draw.random() < self.lost else score for score in found]
        return mean_score((*self.own, *(_noisy(score, self.chance, draw) for score in found)))


def neighbour_weight(lr: float, other: float, is_higher: bool) -> float:
    """The weight of all seeds of a neighbouring rate, where a seed of the rate itself has 1."""
    return _weight(abs(math.log10(other / lr)), is_higher)


def _weight(away: float, is_higher: bool) -> float:
    return (HIGHER if is_higher else LOWER) * math.exp(-away / NEIGHBOUR_DECADES)


def _nearest(
    index: int,
    others: Sequence[int],
    rates: tuple[float, ...],
    scores: Scores,
    chance: float,
) -> tuple[tuple[float, ...], float]:
    """The scores of the first tried rate among `others` and its distance in decades; chance at
    BEYOND_DECADES if none is tried.
    """
    for other in others:
        if scores[other]:
            return scores[other], abs(math.log10(rates[other] / rates[index]))
    return (chance,), BEYOND_DECADES


def _noisy(score: float, chance: float, draw: random.Random) -> float:
    """Add noise to a score. It is 0 at chance and at 1: seeds that only guess score alike, and so
    do seeds that have learnt the task completely.
    """
    deviation = NOISE * abs(score - chance) / (1 - chance) * (1 - score)
    return min(1.0, max(0.0, draw.gauss(score, deviation)))
