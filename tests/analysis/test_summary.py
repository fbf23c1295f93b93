"""Counts of planned and finished runs."""

from dataclasses import replace

from rows_made import make_row, make_sweep

from recollect.analysis import find_missing, group_cells, missing_text, remaining_s


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


# --- what is left


def test_the_time_left_goes_by_the_cell_s_own_runs_or_by_the_steps_of_others():
    quick = make_sweep({1e-3: [0.5, 0.5]})
    rows = [replace(row, wall_s=10.0, steps=1000) for row in quick]
    rows.append(make_row(lr=1e-2, seed=1, score=None, status="todo"))
    rows.append(make_row("mamba", lr=1e-2, seed=1, score=None, status="todo"))
    assert remaining_s(group_cells(rows)) == [10.0, 10.0]
    assert remaining_s(group_cells(rows[:2])) == [0.0]
    assert remaining_s(group_cells(rows[2:])) == [None, None], "nothing was timed yet"


def test_a_run_that_failed_is_not_waited_for():
    rows = [replace(make_row(), wall_s=10.0, steps=1000)]
    rows.append(make_row(seed=1, score=None, status="failed", failure="oom: too large"))
    assert remaining_s(group_cells(rows)) == [0.0]
