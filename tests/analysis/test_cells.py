"""Runs are grouped into cells and named by what differs."""

from dataclasses import replace

import pytest
from rows_made import make_row, make_sweep, only_cell

from recollect.analysis import (
    best_text,
    cautions,
    count_statuses,
    counts_text,
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
    low, high = spread.interval
    assert low == 0.0
    assert 0.4 < high < 1.3


def test_two_seeds_have_no_interval():
    assert seed_spread(only_cell(make_sweep({1e-3: [1.0, 1.0]}))).interval is None
    assert seed_spread(only_cell([make_row(score=None, status="todo")])) is None


def test_the_narrower_the_neighbours_the_surer_the_edges():
    """The edge of a window lies between two rates, so a finer grid leaves less to other seeds."""

    def interval(step: float) -> tuple[float, float]:
        rates = [10 ** (-4 + step * index) for index in range(round(2 / step) + 1)]
        scores = {lr: [float(2e-4 < lr < 5e-3)] * 3 for lr in rates}
        found = seed_spread(only_cell(make_sweep(scores)), 0.9).interval
        assert found is not None
        return found

    wide, fine = interval(0.5), interval(0.1)
    assert fine[1] - fine[0] < wide[1] - wide[0]


def test_edges_have_intervals_of_their_own():
    rows = make_sweep({1e-4: [0.0, 0.0, 0.4], 1e-3: [1.0] * 3, 1e-2: [0.0] * 3})
    spread = seed_spread(only_cell(rows), 0.5)
    window = only_cell(rows).window(0.5)
    assert spread.low_edge[0] < window.low < spread.low_edge[1] <= 1e-3
    assert 1e-3 <= spread.high_edge[0] < window.high < spread.high_edge[1]
    assert spread.interval[0] < window.decades < spread.interval[1]


def test_draws_without_a_window_have_no_edges():
    rows = make_sweep({1e-4: [0.0] * 3, 1e-3: [1.0, 0.0, 0.0], 1e-2: [0.0] * 3})
    spread = seed_spread(only_cell(rows), 0.9)
    assert spread.interval[0] == 0
    assert spread.low_edge[0] <= spread.low_edge[1] <= 1e-3
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
