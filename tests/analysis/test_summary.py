"""Counts of planned and finished runs."""

from dataclasses import replace

import pytest
from rows_made import make_row, make_sweep

from recollect.analysis import (
    TAU,
    closing,
    find_missing,
    group_cells,
    missing_text,
    remaining_s,
    sentence,
    summarise,
    summary,
)
from recollect.analysis.summary import WIDTH_POWER


def cells():
    return group_cells(
        [
            make_row(lr=1e-3, seed=1),
            make_row(lr=1e-3, seed=2, status="diverged"),
            make_row(lr=1e-2, seed=1, score=None, status="todo"),
            make_row(lr=1e-2, seed=2, score=0.4, status="running"),
            make_row(lr=1e-1, seed=1, score=None, status="failed", failure="oom: 1 GB"),
            make_row("mamba"),
        ]
    )


def test_every_run_is_counted_once():
    first, second = find_missing(cells())
    assert (first.planned, first.scored, first.failed, first.running, first.todo) == (5, 2, 1, 1, 1)
    assert first.empty_rates == (1e-2, 1e-1)
    assert (first.runs, first.is_complete) == (3, False)
    assert (second.runs, second.is_complete, second.empty_rates) == (0, True, ())


def test_one_sentence_for_all():
    expected = (
        "3 of 5 runs without a result in 1 cell (1 todo, 1 running, 1 failed); nothing yet at "
        "1e-2, 1e-1."
    )
    assert missing_text(find_missing(cells())) == expected
    assert missing_text(find_missing(cells()[1:])) == ""


def test_a_run_that_ended_without_a_score_is_missing():
    found = find_missing(group_cells([make_row(seed=1), make_row(seed=2, score=None)]))
    assert (found[0].runs, found[0].is_complete) == (1, False)
    assert missing_text(found) == "1 of 2 runs without a result in 1 cell."


@pytest.mark.parametrize("rates", [6, 7])
def test_at_most_six_empty_rates_are_listed(rates):
    rows = [make_row(lr=10.0**-i, seed=1, score=None, status="todo") for i in range(rates)]
    text = missing_text(find_missing(group_cells(rows)))
    assert ("nothing yet at" in text) == (rates == 6)


def test_a_seed_that_just_reaches_tau_has_solved_the_task():
    (summary,) = summarise(group_cells(make_sweep({1e-3: [0.9, 0.89, 1.0]})), {}, tau=0.9)
    assert summary.solved_seeds == 2


# --- what is left


def test_the_time_left_goes_by_the_cell_s_own_runs_or_by_the_steps_of_others():
    quick = make_sweep({1e-3: [0.5, 0.5]})
    rows = [replace(row, wall_s=10.0, steps=1000) for row in quick]
    rows.append(make_row(lr=1e-2, seed=1, score=None, status="todo"))
    rows.append(make_row("mamba", lr=1e-2, seed=1, score=None, status="todo"))
    assert remaining_s(group_cells(rows)) == [10.0, 10.0]
    assert remaining_s(group_cells(rows[:2])) == [0.0]
    assert remaining_s(group_cells(rows[2:])) == [None, None], "nothing was timed yet"


def todo(mixer="attention", seed=9, **fields):
    return make_row(mixer, seed=seed, score=None, status="todo", **fields)


def test_a_cell_without_a_run_goes_by_its_mixer_in_proportion_to_its_size():
    """A wider model takes longer, by a power that was measured; the slow mixer says nothing about
    the quick one.
    """
    rows = [
        replace(make_row(), wall_s=10.0, steps=1000),
        replace(make_row("mamba"), wall_s=500.0, steps=1000),
        todo(model={"width": 128}),
        todo("mamba", model={"depth": 4}),
    ]
    wider = 10.0 * 2**WIDTH_POWER
    assert remaining_s(group_cells(rows)) == pytest.approx([0.0, 0.0, wider, 1000.0])


def test_what_has_not_begun_is_expected_to_end_as_early_as_what_has():
    rows = [
        replace(make_row(seed=1), wall_s=2.0, steps=200),  # of 1000
        replace(todo(seed=2), status="running", steps=600),  # may go on to the end
        todo(seed=3),
    ]
    # .01 s a step: 400 of the one under way, and (200 + 1000) / 2 of the other.
    assert remaining_s(group_cells(rows)) == [pytest.approx(10.0)]
    wider = remaining_s(group_cells([*rows, todo(model={"width": 128})]))[1]
    assert wider == pytest.approx(6.0 * 2**WIDTH_POWER)


def test_a_step_takes_longer_in_proportion_to_its_tokens():
    timed, larger = replace(make_row(), wall_s=10.0, steps=1000), todo(lr=1e-2)
    for table, change in (("task", {"length": 128}), ("train", {"batch": 3})):
        larger = replace(larger, spec=larger.spec | {table: larger.spec[table] | change})
    assert remaining_s(group_cells([timed, larger])) == [0.0, pytest.approx(10.0 * 2 * 3)]


def test_a_run_that_failed_says_nothing_of_how_early_others_end():
    rows = [
        replace(make_row(seed=1), wall_s=2.0, steps=200),  # of 1000
        replace(todo(seed=2), status="failed", failure="oom: too large", steps=900),
        todo(seed=3),
    ]
    assert remaining_s(group_cells(rows)) == [pytest.approx(2.0)]


def test_the_time_of_a_run_that_failed_is_a_time():
    failed = replace(todo(seed=1), status="failed", failure="oom: x", steps=500, wall_s=5.0)
    assert remaining_s(group_cells([failed, todo(seed=2)])) == [pytest.approx(10.0)]


def test_a_run_that_failed_is_not_waited_for():
    rows = [replace(make_row(), wall_s=10.0, steps=1000)]
    rows.append(make_row(seed=1, score=None, status="failed", failure="oom: too large"))
    assert remaining_s(group_cells(rows)) == [0.0]


def test_the_context_is_the_length_of_rows_made_of_strings():
    timed, copying = replace(make_row(), wall_s=10.0, steps=1000), todo()
    task = {"name": "copying", "context": 192}
    copying = replace(copying, spec=copying.spec | {"task": task})
    assert remaining_s(group_cells([timed, copying])) == [0.0, pytest.approx(10.0 * 3)]


def test_intervals_are_drawn_only_where_they_are_shown(monkeypatch):
    """Else the end of a sweep of a thousand cells would wait for as many intervals."""
    asked = []
    monkeypatch.setattr(summary, "seed_spread", lambda cell, tau: asked.append((cell.mixer, tau)))
    cells = group_cells([make_row(model={"width": width}) for width in range(8, 40)])
    found = summarise(cells, {})
    assert len(closing(found, {row.run_id for row in cells[3].rows})) == 2
    assert [sentence(one) for one in found]
    assert asked == []
    assert found[3].spread is found[3].spread is None
    assert asked == [(cells[3].mixer, TAU)]
