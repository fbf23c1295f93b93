"""The search for best scores: on made-up cells whose whole grid is known."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows_made import only_cell
from searched_cells import GRID, SEEDS, Played, Score, whole

from recollect.rows import RunRow
from recollect.running.searching.best import (
    TOLERANCE,
    is_covered,
    is_known,
    middle_place,
    next_round,
)
from recollect.running.searching.rounds import STEP

MIDDLE = 2.154e-3


class Search(Played):
    """Plays the search for best scores."""

    def __init__(self, truth: Sequence[RunRow]):
        super().__init__(truth, next_round)

    @property
    def best(self) -> float:
        """Of the rates with all their seeds."""
        count = max(self.trained.values())
        return max(rate.mean for rate in self.cell.scored_rates if len(rate.scores) == count)

    @property
    def true_best(self) -> float:
        return self.true_cell.best.mean


def hill(top: float, at: float, decades: float = 1.0) -> Score:
    """A score that falls on both sides of a rate, whatever the seed."""
    return lambda lr, seed: top * math.exp(-((math.log10(lr / at) / decades) ** 2))


def test_what_solves_the_task_at_the_middle_rate_needs_no_search():
    search = Search(whole(lambda lr, seed: 0.99))
    assert search.rounds == [[(MIDDLE, seed) for seed in SEEDS]]
    assert is_known(search.cell)


@given(st.lists(st.floats(-6, 0), min_size=1, max_size=20, unique=True))
def test_the_middle_is_that_of_the_decades(exponents):
    rates = sorted({10**exponent for exponent in exponents})
    middle = math.sqrt(rates[0] * rates[-1])
    away = [abs(math.log10(rate / middle)) for rate in rates]
    assert away[middle_place(rates)] == pytest.approx(min(away))


def test_otherwise_one_seed_each_of_rates_without_a_wide_gap():
    second = Search(whole(hill(0.6, 3e-2))).rounds[1]
    tried = sorted({MIDDLE, *(lr for lr, _ in second)})
    assert len(second) == len({lr for lr, _ in second}) == 8
    ends = [GRID[0], *tried, GRID[-1]]
    assert max(math.log10(b / a) for a, b in pairwise(ends)) <= STEP


def test_the_best_rate_has_every_seed_and_rates_far_from_it_have_one():
    search = Search(whole(hill(0.6, 3e-2)))
    assert search.best == pytest.approx(search.true_best)
    assert search.trained[3e-2] == len(SEEDS)
    assert search.trained[1e-4] == 1
    assert sum(search.trained.values()) < len(search.truth) / 2


def test_a_model_that_guesses_is_known_after_the_gaps_are_closed():
    search = Search(whole(lambda lr, seed: 0.25))
    assert len(search.rounds) == 2
    assert is_known(search.cell)


def test_one_rate_says_nothing_about_rates_far_away():
    """Predicted from what is at chance, everything is at chance."""
    rows = [
        replace(row, status="todo", accuracy=None) if row.spec["train"]["lr"] != MIDDLE else row
        for row in whole(lambda lr, seed: 0.25)
    ]
    assert not is_covered(only_cell(rows))
    assert not is_known(only_cell(rows))


def test_a_grid_with_wide_gaps_of_its_own_is_covered_when_all_of_it_is_tried():
    wide = (1e-5, 1e-3, 1e-1)
    search = Search(whole(lambda lr, seed: 0.25, wide))
    assert is_covered(search.cell)
    assert search.trained.keys() >= {1e-3}


def test_a_lucky_seed_is_not_taken_for_the_best():
    def score(lr: float, seed: int) -> float:
        return 0.99 if (lr, seed) == (1e-2, 1) else 0.4

    search = Search(whole(score))
    assert search.trained[1e-2] == len(SEEDS)
    assert search.best == pytest.approx(search.true_best)


@pytest.mark.parametrize(("top", "seeds"), [(0.985, 1), (1.0, len(SEEDS))])
def test_a_rate_as_good_that_has_all_its_seeds_will_do(top, seeds):
    """0.97 with every seed: 0.985 is hardly better, 1 is."""

    def score(lr: float, seed: int) -> float:
        return top if lr == 5e-3 else 0.97 if lr == MIDDLE else 0.9

    search = Search(whole(score))
    assert search.trained[5e-3] == seeds
    assert search.true_best - search.best <= TOLERANCE


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.floats(-4.5, -1), st.floats(0.3, 1.0), st.integers(1, 5))
def test_it_ends_and_hardly_misses_the_best_of_a_hill(draw, at, top, seeds):
    noise = random.Random(draw)
    shape = hill(top, 10**at, decades=0.8)
    better = {seed: noise.gauss(0, 0.003) for seed in range(seeds)}
    truth = whole(lambda lr, seed: max(0.0, shape(lr, seed) + better[seed]), seeds=range(seeds))
    search = Search(truth)
    assert sum(search.trained.values()) <= len(search.truth)
    assert search.best >= search.true_best - 2 * TOLERANCE


@pytest.mark.parametrize("seeds", [1, 2, 5])
@pytest.mark.parametrize("rates", [GRID[:1], GRID[:2], GRID[3:7]])
def test_small_grids_end_too(rates, seeds):
    for level in (0.0, 0.5, 0.99):
        search = Search(whole(lambda lr, seed, at=level: at, rates, range(seeds)))
        assert search.best == search.true_best


def test_a_failed_rate_is_not_waited_for():
    rows = [
        replace(row, status="failed" if row.spec["train"]["lr"] == MIDDLE else "todo")
        for row in whole(lambda lr, seed: 0.5)
    ]
    todo = [replace(row, accuracy=None) for row in rows]
    chosen = next_round(only_cell(todo))
    assert {row.spec["train"]["lr"] for row in chosen} <= {1e-3, 3e-3}
    failed = [replace(row, status="failed") for row in todo]
    assert next_round(only_cell(failed)) == []


def test_a_cell_that_another_process_trains_is_left_to_it():
    rows = [replace(row, status="todo", accuracy=None) for row in whole(lambda lr, seed: 0.5)]
    rows[0] = replace(rows[0], status="running")
    assert next_round(only_cell(rows)) == []
