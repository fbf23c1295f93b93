"""The time left that `status` shows: of a cell, of a sweep, of all."""

from collections.abc import Sequence
from dataclasses import replace

from rows_made import make_row
from stores_made import make_store, plan

from recollect.analysis import group_cells
from recollect.reports.live.time_left import TimeLeft
from recollect.rows import RunRow
from recollect.running.planning.order import AskedFor, remember_search
from recollect.running.searching.searches import IN_ROUNDS
from recollect.spec.cell import cell_id
from recollect.store import Store


def timed(mixer: str = "attention") -> RunRow:
    """A run that took 100 s."""
    return replace(make_row(mixer), wall_s=100.0, steps=1000)


def waiting(mixer: str, count: int) -> list[RunRow]:
    return [make_row(mixer, seed=seed, score=None, status="todo") for seed in range(count)]


def left_of(rows: Sequence[RunRow]) -> TimeLeft:
    return TimeLeft(group_cells(rows))


def ids(rows: Sequence[RunRow]) -> frozenset[str]:
    return frozenset(row.run_id for row in rows)


def test_runs_of_a_sweep_have_their_part_of_a_cell_s_time():
    quick, slow = waiting("attention", 4), waiting("mamba", 2)
    rows = [timed(), timed("mamba"), *quick, *slow]
    left, asked = left_of(rows), AskedFor(ids([*quick, *slow]), frozenset())
    assert left.text(quick, asked) == "6 min 40 s"
    assert left.text(quick[:1], asked) == "1 min 40 s"
    assert left.text([*quick[:1], *slow[:1]], asked) == "3 min 20 s"
    assert left.text(rows, asked) == "10 min 0 s"
    assert left.text(rows[:2], asked) == ""


def test_of_a_search_it_is_an_estimate_and_a_limit():
    rows = waiting("attention", 4)
    asked = AskedFor(frozenset(), ids(rows), {cell_id(rows[0].spec): 1})
    left = left_of([timed(), *rows])
    assert left.text(rows, asked) == "about 1 min 40 s, at most 6 min 40 s"
    assert left.text(rows[:2], asked) == "about 1 min 40 s, at most 3 min 20 s"
    assert left.text(rows[:1], asked) == "at most 1 min 40 s"


def test_what_no_search_needs_takes_no_time():
    searched, over = waiting("attention", 2), waiting("mamba", 2)
    asked = AskedFor(frozenset(), ids(searched), {cell_id(searched[0].spec): 2})
    left = left_of([timed(), timed("mamba"), *searched, *over])
    assert left.text(over, asked) == "not needed"
    assert left.text([*searched, *over], asked) == "at most 3 min 20 s"
    assert left.text(searched, asked) == "at most 3 min 20 s"


def test_a_run_that_trains_is_waited_for():
    trained = replace(waiting("attention", 1)[0], status="running")
    left = left_of([timed(), trained])
    assert left.text([trained], AskedFor(frozenset(), frozenset())) == "1 min 40 s"


def test_nothing_is_known_before_a_run_was_timed():
    rows = waiting("attention", 2)
    assert left_of(rows).text(rows, AskedFor(ids(rows), frozenset())) == "?"


def test_status_shows_it_by_sweep(command, tmp_path):
    rows = waiting("attention", 3)
    make_store(tmp_path, [timed(), *rows], "whole")
    with Store.open(tmp_path) as store:
        plan(store, rows[:1], "part")
        plan(store, [timed()], "done")
    lines = command("status", tmp_path)[1].splitlines()
    # stores_made: a run ends after 100 steps and a second.
    sweeps = [line for line in lines if line.startswith("  ")]
    assert [line.partition(" = ")[0].strip() for line in sweeps] == [
        "whole: 4 planned",
        "part: 1 planned",
        "done: 1 planned",
    ]
    assert [line.partition("; left: ")[2] for line in sweeps] == ["3 s", "1 s", ""]


def test_status_counts_a_shared_cell_for_the_sweep_that_needs_it(command, tmp_path):
    rows = [replace(timed(), accuracy=0.0, exact=0.0), *waiting("attention", 3)]
    make_store(tmp_path, rows, "whole")
    with Store.open(tmp_path) as store:
        plan(store, rows, "searched")
        remember_search(store, ["searched"], "edges")
        (cell,) = group_cells(store.rows())
        assert not IN_ROUNDS["edges"].next_round(cell), "nothing is learnt at the only rate"
    sweeps = [line for line in command("status", tmp_path)[1].splitlines() if "; left: " in line]
    assert [line.partition("; left: ")[2] for line in sweeps] == ["3 s", "not needed"]
