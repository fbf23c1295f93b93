"""Scores and windows of a claim's cells with other seeds."""

import math

import numpy as np
import pytest
from rows_made import make_row, only_cell
from searched_cells import Played

from recollect.analysis import Cell
from recollect.analysis.seeds.other_seeds import draw_cell, draw_means, draw_windows
from recollect.reports.paper.claims.checks import Measure
from recollect.reports.paper.claims.measures import (
    redrawn_score,
    redrawn_window,
    tuned,
    window,
)
from recollect.reports.paper.study import RATES
from recollect.running.searching.searches import IN_ROUNDS

COUNT = 400


def whole(low: float, high: float, top: float = 0.99) -> Cell:
    """One seed of three fails at the highest rate between these."""

    def score(lr: float, seed: int) -> float:
        breaks = seed == 2 and lr == high
        return top if low <= lr <= high and not breaks else 0.1

    return only_cell([make_row("mamba", lr, s, score(lr, s)) for lr in RATES for s in range(3)])


def searched(cell: Cell, search: str = "edges") -> Cell:
    return Played(cell.rows, IN_ROUNDS[search].next_round).cell


@pytest.mark.parametrize("cell", [whole(1e-3, 1e-2), searched(whole(1e-4, 3e-2))])
def test_windows_are_those_of_the_intervals(cell):
    """The same draws as on the results page, which asks for more of them."""
    trained = window(cell, "mamba", True, 0.9)
    drawn = [redrawn_window(trained, draw, 0.9) for draw in draw_cell(cell, COUNT)]
    (wanted,) = draw_windows(cell, (0.9,), COUNT)
    assert [found.low for found in drawn] == pytest.approx(wanted.widths.tolist())
    assert all(found.high in (found.low, math.inf) for found in drawn)
    assert len({round(found.low, 3) for found in drawn}) > 10


def test_the_best_score_is_that_of_any_rate_that_was_tried():
    """Also of rates with one seed: a search for edges has all seeds at the edges alone."""
    cell = searched(whole(1e-4, 3e-2))
    trained = tuned(cell, "mamba", True)
    rates, means = draw_means(cell, COUNT)
    tried = [any(rate.lr == lr and rate.scores for rate in cell.rates) for lr in rates]
    assert not all(tried)
    drawn = [redrawn_score(trained, draw) for draw in draw_cell(cell, COUNT)]
    assert [found.low for found in drawn] == means[:, tried].max(axis=1).tolist()
    assert np.mean([found.low > 0.98 for found in drawn]) > 0.95
    assert all(found.low <= found.high <= 1.0 for found in drawn)


@pytest.mark.parametrize(
    ("trained", "raised"),
    [
        (Measure(0.5, 0.5, "tuned"), 0.0),
        (Measure(0.5, 0.6, "searched"), 0.1),
        (Measure(0.5, 1.0, "a lower bound"), 1.0),
    ],
)
def test_what_may_raise_a_score_may_raise_each_draw_of_it(trained, raised):
    for draw in draw_cell(whole(1e-3, 1e-2, top=0.5), 20):
        found = redrawn_score(trained, draw)
        assert found.high == pytest.approx(min(1.0, found.low + raised))


def test_what_is_not_known_stays_unknown():
    (draw,) = draw_cell(whole(1e-3, 1e-2), 1)
    no_score, no_window = Measure(0.0, 1.0, "", "seeds"), Measure(0.0, math.inf, "", "rates")
    assert redrawn_score(no_score, draw) == no_score
    assert redrawn_window(no_window, draw, 0.9) == no_window


def test_a_draw_that_never_reaches_tau_has_no_window():
    (draw,) = draw_cell(whole(1e-3, 1e-2, top=0.5), 1)
    found = redrawn_window(Measure(1.0, 1.0, "mamba"), draw, 0.9)
    assert (found.low, found.high) == (0.0, 0.0)


def test_a_draw_whose_window_ends_with_the_grid_is_a_lower_bound():
    draws = draw_cell(whole(1e-3, 1.0), 20)
    found = [redrawn_window(Measure(1.0, 1.0, ""), draw, 0.9) for draw in draws]
    ends = [draw.means[-1] >= 0.9 for draw in draws]
    assert 10 < sum(ends) < 20
    assert [one.high == math.inf for one in found] == ends


def test_a_window_does_not_vary_where_rates_are_too_far_from_tried_ones():
    rows = [make_row("mamba", 1e-3, seed, 0.9 + 0.03 * seed) for seed in range(3)]
    rows += [make_row("mamba", 2e-1, seed, None, "todo") for seed in range(3)]
    known = Measure(1.0, 1.2, "mamba")
    draws = draw_cell(only_cell(rows), 20)
    assert {redrawn_window(known, draw, 0.9) for draw in draws} == {known}
    assert len({redrawn_score(Measure(0.93, 1.0, ""), draw).low for draw in draws}) > 5


def test_a_cell_without_a_score_has_no_draws():
    assert draw_cell(only_cell([make_row(score=None, status="todo")]), 5) == []
