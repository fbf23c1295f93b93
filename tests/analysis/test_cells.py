"""Runs are grouped into cells and named by what differs."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from rows_made import make_row, make_sweep, only_cell

from recollect.analysis import (
    best_text,
    cautions,
    count_statuses,
    counts_text,
    find_window,
    group_cells,
    seed_spread,
    sentence,
    summarise,
)
from recollect.analysis.cells import Grouping
from recollect.rows import RunRow


def test_runs_that_differ_in_rate_and_seed_alone_are_one_cell():
    cell = only_cell(make_sweep({1e-2: [0.5, 0.7], 1e-3: [1.0, 0.9]}))
    assert [rate.lr for rate in cell.rates] == [1e-3, 1e-2]
    assert cell.rates[0].scores == {1: 1.0, 2: 0.9}
    assert cell.rates[1].mean == pytest.approx(0.6)
    assert cell.best is cell.rates[0]
    assert cell.name == "attention"


def test_diverged_counts_as_nothing_and_the_unfinished_do_not_count():
    rows = [
        make_row(seed=1, score=1.0),
        make_row(seed=2, score=0.9, status="diverged", diverged_step=7),
        make_row(seed=3, score=0.8, status="running"),
        make_row(seed=4, score=None, status="failed", failure="oom: 1 GB"),
        make_row(seed=5, score=None, status="todo"),
    ]
    cell = only_cell(rows)
    assert cell.rates[0].scores == {1: 1.0, 2: 0.0}
    assert cell.scored_runs == 2
    assert len(cell.rows) == 5
    assert (
        counts_text(count_statuses(rows))
        == "5 planned = 1 done + 1 diverged + 1 failed + 1 running + 1 todo"
    )


def test_a_mean_that_is_tau_reaches_it():
    scores = [0.9245, 0.8755]
    assert sum(scores) / 2 < 0.9, "by the last bit"
    cell = only_cell(make_sweep({1e-3: scores, 1e-2: [0.1, 0.1]}))
    assert cell.rates[0].mean == 0.9
    assert cell.window(0.9) is not None


def test_an_exact_task_is_judged_by_exact():
    assert only_cell([make_row(score=0.9, exact=0.3, score_name="exact")]).best.mean == 0.3


def test_sizes_come_from_whichever_row_has_them():
    rows = [
        make_row(seed=1, score=None, status="todo"),
        make_row(seed=2, parameters=900, state_size=5),
    ]
    cell = only_cell(rows)
    assert (cell.parameters, cell.state_size) == (900, 5)
    assert (only_cell(rows[:1]).parameters, only_cell(rows[:1]).state_size) == (None, None)


def test_spread_over_seeds():
    rows = make_sweep({1e-4: [0.0, 0.0, 0.0], 1e-3: [1.0, 1.0, 0.5], 1e-2: [0.0, 0.8, 0.0]})
    spread = seed_spread(only_cell(rows), tau=0.8)
    # Seed 1: a fifth of a decade either side. Seed 2: a fifth below, one decade above, then the
    # grid ends. Seed 3: none.
    assert (spread.seeds, spread.low, spread.high) == (3, 0.0, pytest.approx(1.2))
    # All of a draw's seeds are the best ones at both rates in 1 of 91 draws: outside of 95 %.
    low, high = spread.interval
    assert low == 0.0
    assert 0.4 < high < 1.2


def test_equal_seeds_have_no_spread_and_two_seeds_no_interval():
    scores = {1e-4: [0.0] * 4, 1e-3: [1.0] * 4, 1e-2: [0.0] * 4}
    spread = seed_spread(only_cell(make_sweep(scores)), tau=0.5)
    assert spread.interval == (pytest.approx(1.0), pytest.approx(1.0))
    assert seed_spread(only_cell(make_sweep({1e-3: [1.0, 1.0]}))).interval is None
    assert seed_spread(only_cell([make_row(score=None, status="todo")])) is None


def test_bootstrap_interval_agrees_with_all_resamples_of_three_seeds():
    """Rates are drawn independently: 27 draws at each of three rates, all of them."""
    rows = make_sweep({1e-4: [0.1, 0.6, 0.3], 1e-3: [1.0, 0.9, 1.0], 1e-2: [0.7, 0.2, 0.1]})
    cell = only_cell(rows)
    lrs = [rate.lr for rate in cell.rates]
    means = [
        [sum(drawn) / 3 for drawn in product(rate.scores.values(), repeat=3)] for rate in cell.rates
    ]
    widths = [find_window(lrs, chosen, 0.5).decades for chosen in product(*means)]
    outer_low, inner_low, inner_high, outer_high = np.quantile(widths, (0.01, 0.05, 0.95, 0.99))
    low, high = seed_spread(cell, 0.5).interval
    assert outer_low <= low <= inner_low
    assert inner_high <= high <= outer_high


def test_edges_have_intervals_of_their_own():
    rows = make_sweep({1e-4: [0.0, 0.0, 0.4], 1e-3: [1.0] * 3, 1e-2: [0.0] * 3})
    spread = seed_spread(only_cell(rows), 0.5)
    # All draws of the third seed alone put 1e-4 at .4: the lower edge lies where .4 -> 1 crosses
    # .5, at 5/6 of the decade.
    assert [math.log10(edge) for edge in spread.low_edge] == pytest.approx([-3 - 5 / 6, -3.5])
    assert [math.log10(edge) for edge in spread.high_edge] == pytest.approx([-2.5, -2.5])
    assert spread.interval == pytest.approx((1.0, 4 / 3))


def test_draws_without_a_window_have_no_edges():
    rows = make_sweep({1e-4: [0.0] * 3, 1e-3: [1.0, 0.0, 0.0], 1e-2: [0.0] * 3})
    spread = seed_spread(only_cell(rows), 0.9)
    assert spread.interval[0] == 0
    assert spread.low_edge[0] == spread.low_edge[1]
    assert seed_spread(only_cell(make_sweep({1e-3: [0.1] * 3}))).low_edge is None


# ---- what a score is compared with ----


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ({"name": "mqar", "length": 64, "pairs": 4, "placement": "uniform"}, 0.25),
        # Two keys draw from slots of weight 1 and 1 / 2 ** .9: the first is the likelier one.
        (
            {"name": "mqar", "length": 8, "pairs": 2, "placement": "power", "power": 0.1},
            1 / (1 + 2**-0.9),
        ),
        ({"name": "copying"}, 0.25),
        ({"name": "of another version"}, 0.25),
        ({}, 0.25),
    ],
)
def test_what_positions_give_away_is_known_of_mqar_alone(task, expected):
    row = make_row()
    cell = only_cell([replace(row, spec=row.spec | {"task": task})])
    assert cell.position_only == pytest.approx(expected)
    assert cell.position_helps == (expected > 0.25)


@pytest.mark.parametrize(("power", "helps"), [(0.99, True), (0.995, False)])
def test_positions_help_from_the_last_written_digit_on(power, helps):
    """The likelier of two slots is asked first in 1 / (1 + 2 ** (power - 1)) of all rows."""
    task = {"name": "mqar", "length": 8, "pairs": 2, "placement": "power", "power": power}
    row = make_row(chance=0.5)
    cell = only_cell([replace(row, spec=row.spec | {"task": task})])
    assert cell.position_only == pytest.approx(1 / (1 + 2 ** (power - 1)))
    assert cell.position_helps == helps


def test_by_rows_that_are_wholly_right_positions_give_nothing_away():
    cell = only_cell([make_row(score_name="exact", exact=0.5)])
    assert (cell.position_only, cell.position_helps) == (cell.chance, False)


@pytest.mark.parametrize("score", [0.0, 0.2])
def test_a_rate_where_every_run_diverged_is_best_only_if_there_is_no_other(score: float):
    """Diverged runs count as 0: as good as a run that gets nothing right."""

    def diverged(lr: float, seed: int = 1) -> RunRow:
        return make_row(lr=lr, seed=seed, score=None, status="diverged", diverged_step=3)

    lost = [diverged(1e-2), diverged(1e-1), diverged(1.0)]
    cell = only_cell([make_row(lr=1e-3, seed=1, score=score), *lost])
    assert cell.best.lr == 1e-3
    assert not cell.all_diverged
    mixed = only_cell([make_row(lr=1e-3, seed=1, score=score), diverged(1e-3, 2), *lost])
    assert mixed.best.lr == 1e-3
    nothing = only_cell(lost)
    assert nothing.all_diverged
    assert best_text(nothing) == "every run diverged"
    (summary,) = summarise([nothing], {})
    assert sentence(summary) == "attention diverged in every run (3 runs), whatever the rate."
    assert not any("best rate" in caution for caution in cautions(summary))
    assert not only_cell([make_row(status="todo", score=None)]).all_diverged


def test_a_grouping_serves_as_results_arrive():
    rows = [
        make_row(mixer, lr=lr, seed=seed)
        for mixer in ("attention", "mamba")
        for lr in (1e-3, 1e-2)
        for seed in (1, 2)
    ]
    rows = [replace(row, run_id=f"{number}") for number, row in enumerate(rows)]
    before = [replace(row, status="todo", accuracy=None) for row in rows]
    grouping = Grouping(before)
    assert grouping.cells(before) == group_cells(before)
    assert grouping.cells(rows) == group_cells(rows) != group_cells(before)
