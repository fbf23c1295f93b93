"""The search for the edges of windows: on made-up cells whose whole grid is known."""

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

from recollect.analysis import Cell
from recollect.rows import RunRow
from recollect.running.searching.edges import (
    COARSE,
    TOLERANCE,
    bounds,
    coarse_places,
    is_known,
    next_round,
)
from recollect.running.searching.rounds import STEP


def window(low: float, high: float, outside: float = 0.1) -> Score:
    """Solved from `low` to `high` whatever the seed."""
    return lambda lr, seed: 0.99 if low <= lr <= high else outside


class Search(Played):
    """Plays the search for edges."""

    def __init__(self, truth: Sequence[RunRow]):
        super().__init__(truth, next_round)

    @property
    def decades(self) -> float:
        return _decades(self.cell)

    @property
    def true_decades(self) -> float:
        return _decades(self.true_cell)


def _decades(cell: Cell) -> float:
    found = cell.window()
    return found.decades if found else 0.0


# ---- where it begins ----


def test_it_begins_with_rates_a_decade_apart_and_one_seed():
    first = Search(whole(window(1e-3, 1e-2))).rounds[0]
    assert first == [(1e-4, 1), (4.642e-4, 1), (5e-3, 1), (3e-2, 1)]


@given(st.lists(st.floats(-6, 0), min_size=1, max_size=20, unique=True))
def test_the_first_rates_leave_no_gap_that_a_wide_window_fits_into(exponents):
    rates = sorted({float(f"{10**exponent:.4g}") for exponent in exponents})
    places = coarse_places(rates)
    assert places == sorted(set(places))
    finest = max((math.log10(b / a) for a, b in pairwise(rates)), default=0)
    tried = [math.log10(rates[place]) for place in places]
    ends = [math.log10(rates[0]), *tried, math.log10(rates[-1])]
    # A rate may lie half a step of the grid beside where it is wanted.
    assert max(b - a for a, b in pairwise(ends)) <= COARSE + finest + 1e-9


# ---- what it finds ----


def test_both_edges_are_found_to_the_neighbouring_rates():
    search = Search(whole(window(1e-3, 1e-2)))
    assert abs(search.decades - search.true_decades) <= TOLERANCE
    assert {4.642e-4, 1e-3, 1e-2, 3e-2} <= search.trained.keys()
    # Far from the edges nothing is trained, and of the rates outside one seed is enough.
    assert not {1e-5, 1e-1, 3e-1} & search.trained.keys()
    assert search.trained[4.642e-4] == 1
    assert search.trained[1e-3] == search.trained[1e-2] == len(SEEDS)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, len(GRID) - 1), st.integers(0, len(GRID) - 1))
def test_a_window_wider_than_the_first_spacing_is_never_missed(one, two):
    low, high = sorted((GRID[one], GRID[two]))
    search = Search(whole(window(low, high)))
    if search.true_decades > COARSE:
        assert abs(search.decades - search.true_decades) <= TOLERANCE


def lost_seeds(lr: float, seed: int) -> float:
    """Solved from 2e-3 on; at rates of 5e-3 and more one seed of three is lost."""
    if (lr, seed) in {(5e-3, 1), (1e-2, 2), (3e-2, 2)} or not 1e-3 <= lr <= 3e-2:
        return 0.02
    return 0.87 if lr == 1e-3 else 0.99


def test_where_a_seed_solves_it_a_narrow_window_beside_it_is_looked_for():
    """The first seed is lost at 5e-3, so from there down to 4.642e-4 nothing seems to work."""
    search = Search(whole(lost_seeds))
    assert 0 < search.true_decades < COARSE / 2
    assert abs(search.decades - search.true_decades) <= TOLERANCE
    assert is_known(search.cell)


def test_nothing_is_known_of_a_gap_beside_a_run_that_solves_it():
    """Before these rates are tried, the mean at every tried rate is below the level."""
    tried = (1e-4, 4.642e-4, 5e-3, 1e-2, 3e-2, 1e-1)
    rows = whole(lost_seeds)
    cell = only_cell(
        [
            row if row.spec["train"]["lr"] in tried else replace(row, status="todo", accuracy=None)
            for row in rows
        ]
    )
    assert cell.window() is None
    assert not is_known(cell)
    assert bounds(cell) is None
    following = {row.spec["train"]["lr"] for row in next_round(cell)}
    assert following & {1e-3, 2.154e-3, 3e-3}
    assert not following & {1e-5, 3e-5}  # more than a decade from all that work


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32), st.floats(-4.5, -2), st.floats(0.3, 2.5), st.integers(1, 5))
def test_it_ends_and_is_within_the_whole_grids_width_or_has_trained_all_that_could_tell(
    draw, low, decades, seeds
):
    """Edges that are soft below and break single seeds above."""
    noise = random.Random(draw)
    # Of each seed: where it begins to learn, where it breaks, how well it learns in between.
    places = {
        seed: (low + noise.gauss(0, 0.1), low + decades + noise.gauss(0, 0.2), noise.gauss(0, 0.01))
        for seed in range(seeds)
    }

    def score(lr: float, seed: int) -> float:
        begins, breaks, better = places[seed]
        if math.log10(lr) > breaks:
            return 0.0
        learnt = 1 / (1 + math.exp(-8 * (math.log10(lr) - begins)))
        return min(1.0, max(0.0, (0.985 + better) * learnt))

    search = Search(whole(score, seeds=range(seeds)))
    assert sum(search.trained.values()) <= len(search.truth)
    if seeds == 1 and search.true_decades > COARSE:  # nothing is left to chance
        assert abs(search.decades - search.true_decades) <= TOLERANCE


def test_a_window_between_the_first_rates_is_found_at_the_peak():
    def score(lr: float, seed: int) -> float:
        return 0.97 if lr in (2.154e-3, 3e-3) else 0.6 if lr in (1e-3, 5e-3) else 0.1

    search = Search(whole(score))
    assert {lr for lr, _ in search.rounds[1]} == {3e-3, 1e-2}  # the neighbours of the best
    assert abs(search.decades - search.true_decades) <= TOLERANCE
    assert search.true_decades > 0


def test_no_window_is_said_only_after_every_seed_near_tau():
    search = Search(whole(lambda lr, seed: 0.87 if lr == 5e-3 else 0.2))
    assert search.decades == 0
    assert search.trained[5e-3] == len(SEEDS)
    assert {3e-3, 5e-3, 1e-2} <= search.trained.keys()
    assert sum(search.trained.values()) <= len(GRID)


def test_an_edge_that_breaks_single_seeds_gets_more_seeds():
    def score(lr: float, seed: int) -> float:
        broken = lr > 3e-2 or (lr == 3e-2 and seed == 2)
        return 0.0 if broken or lr < 1e-3 else 0.995

    search = Search(whole(score))
    assert search.trained[3e-2] == len(SEEDS)
    assert abs(search.decades - search.true_decades) <= TOLERANCE


def test_inside_a_window_rates_are_not_far_apart():
    search = Search(whole(window(3e-5, 1e-1)))
    inside = [lr for lr in search.trained if 3e-5 <= lr <= 1e-1]
    steps = [math.log10(b / a) for a, b in pairwise(inside)]
    assert max(steps) <= STEP


@pytest.mark.parametrize("edges", [(3e-5, 1e-1), (2e-4, 2e-2), (1e-3, 1.0)])
def test_in_the_end_every_rate_inside_a_window_is_tried(edges):
    search = Search(whole(window(*edges)))
    low, high = edges
    assert {lr for lr in GRID if low <= lr <= high} <= search.trained.keys()
    assert is_known(search.cell)


def test_the_rates_that_only_show_holes_come_last():
    """Until then the search has what it needs to know the window."""
    search = Search(whole(window(3e-5, 1e-1)))
    *_, last = search.rounds
    assert {seed for _, seed in last} == {SEEDS[0]}
    assert all(3e-5 < lr < 1e-1 for lr, _ in last)


def test_a_window_to_the_end_of_the_grid_is_followed_there():
    search = Search(whole(window(1e-3, 1.0)))
    assert search.trained[3e-1] == len(SEEDS)
    assert search.cell.window().open_high


# ---- what is in its way ----


def test_a_failed_run_is_not_waited_for():
    truth = whole(window(1e-3, 1e-2))
    cell = only_cell(
        [
            replace(row, status="failed", accuracy=None)
            if row.spec["train"]["lr"] == 5e-3
            else replace(row, status="todo", accuracy=None)
            for row in truth
        ]
    )
    assert 5e-3 not in {row.spec["train"]["lr"] for row in next_round(cell)}


def test_a_cell_that_another_process_trains_is_left_to_it():
    rows = [replace(row, status="todo", accuracy=None) for row in whole(window(1e-3, 1e-2))]
    rows[0] = replace(rows[0], status="running")
    assert next_round(only_cell(rows)) == []


@pytest.mark.parametrize("seeds", [1, 2, 5])
@pytest.mark.parametrize("rates", [GRID[:1], GRID[:2], GRID[3:7]])
def test_small_grids_end_too(rates, seeds):
    for level in (0.0, 0.89, 0.9, 1.0):
        search = Search(whole(lambda lr, seed, at=level: at, rates, range(seeds)))
        assert abs(search.decades - search.true_decades) <= TOLERANCE
