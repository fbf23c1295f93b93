"""Scores and windows of a claim's cells with other seeds."""

import math
from dataclasses import replace

import numpy as np
import pytest
from claims_made import BY_NAME, made_rows, study_score, verdict_of
from rows_made import make_row, only_cell
from searched_cells import Played

from recollect.analysis import Cell
from recollect.analysis.seeds.other_seeds import draw_cell, draw_means, draw_windows
from recollect.reports.paper.claims.checks import Measure
from recollect.reports.paper.claims.coverage import MIXED, Tally
from recollect.reports.paper.claims.groups import find_groups, find_subjects
from recollect.reports.paper.claims.measures import (
    redrawn_score,
    redrawn_window,
    tuned,
    window,
)
from recollect.reports.paper.claims.thresholds import FLAT
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


def test_a_sparse_grid_is_drawn_with_the_whole_one():
    """So that the best of four rates is never better than the best of all."""
    claim = BY_NAME["C25"]
    apart = {42: -0.02, 123: 0.0, 777: 0.02}
    rows = made_rows(claim, lambda run: 0.97 + apart[run.seed] if run.train.lr < 0.02 else 0.02)
    rows = [row for row in rows if row.spec["task"]["length"] == 64]
    (group, *_) = find_groups(find_subjects(rows), claim.roles, {}, strict=True)
    leaves = [
        cell.check.leaves[-1]
        for drawn in group.redraws(40)
        for cell in claim.rule(drawn)
        if cell.check.holds
    ]
    gains = [FLAT - leaf.margin for leaf in leaves]
    assert len(gains) > 50
    assert min(gains) > -1e-9
    assert max(gains) > 0.001


# ---- how firm a verdict is ----


def test_a_verdict_with_failing_cells_is_not_that_without():
    """Both are called "holds in part", and the page tells of what fails."""
    mixed, clean = Tally("holds in part", 1, 1, 2), Tally("holds in part", 1, 0, 2)
    assert (mixed.kind, clean.kind) == (MIXED, "holds in part")
    assert Tally("contradicted", 1, 1, 2).kind == "contradicted"
    claim = BY_NAME["C2"]
    verdict = replace(
        verdict_of(claim, made_rows(claim, study_score)),
        tally=mixed,
        resampled=(("holds in part", 0.6), (MIXED, 0.4)),
    )
    assert (verdict.firmness, verdict.rival) == (0.4, ("holds in part", 0.6))


def test_draws_without_a_failing_cell_do_not_confirm_one():
    """One cell fails by so little that other seeds often leave it open."""
    claim = BY_NAME["C21"]

    def score(run):
        apart = {42: -0.004, 123: 0.0, 777: 0.004}[run.seed]
        return 0.93 + apart if run.task.length == 64 else study_score(run)

    verdict = verdict_of(claim, made_rows(claim, score), resamples=40)
    assert verdict.kind == MIXED
    shares = dict(verdict.resampled)
    assert shares[MIXED] + shares.get("holds in part", 0.0) + shares.get("reproduced", 0.0) > 0.95
    assert verdict.firmness == shares[MIXED] < 0.9
