"""Copying results between stores: what is taken, what is left, what a death leaves behind."""

import itertools
import math
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rows_made import make_row
from stores_made import finish, make_store, plan

from recollect.errors import SpecError, StoreError, noticing_damage
from recollect.rows import Evaluation
from recollect.running import engine
from recollect.running.results import RunSet
from recollect.spec.sweep import Sweep
from recollect.store import Result, Store, failpoint
from recollect.store.database import FILE
from recollect.store.joining.merging import merge
from recollect.store.ownership import this_process
from recollect.store.reading.checksums import register


def contents(folder: Path) -> tuple:
    """All that a store says of its runs, but not when it was written."""
    with Store.open(folder, read_only=True) as store:
        assert store.check() == []
        return (
            {row.run_id: row for row in store.rows()},
            store.curves(),
            sorted((sweep.name, sweep.source, sorted(sweep.run_ids)) for sweep in store.sweeps()),
        )


@pytest.fixture
def halves(tmp_path: Path) -> tuple[Path, Path]:
    """Two machines, each with its part of a sweep trained."""
    rows = [make_row(seed=seed, score=seed / 10) for seed in range(1, 5)]
    waiting = [make_row(seed=seed, score=None, status="todo") for seed in range(1, 5)]
    make_store(tmp_path / "a", [*rows[:2], *waiting[2:]], "sweep", "text")
    make_store(tmp_path / "b", [*waiting[:2], *rows[2:]], "sweep", "text")
    return tmp_path / "a", tmp_path / "b"


def test_two_halves_are_a_whole(tmp_path: Path, halves):
    found = merge(tmp_path / "whole", halves)
    assert [(one.runs, one.new, one.results, one.equal) for one in found] == [
        (4, 4, 2, 0),
        (4, 0, 2, 0),
    ]
    whole = RunSet.load(tmp_path / "whole")
    assert {row.spec["seed"]: row.score for row in whole.rows} == {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4}
    assert len(whole.curves) == 4
    with Store.open(tmp_path / "whole") as store:
        assert [note.text for note in store.notes() if note.kind == "merge"] == [
            f"4 new runs and 2 results from {halves[0]}",
            f"0 new runs and 2 results from {halves[1]}",
        ]
        assert [(sweep.name, sweep.source) for sweep in store.sweeps()] == [("sweep", "text")]
        assert len(store.sweeps()[0].run_ids) == 4


def test_a_copy_says_what_the_original_says(tmp_path: Path):
    make_store(
        tmp_path / "a",
        [
            make_row(seed=1, score=0.25),
            make_row(seed=2, score=0.1, status="diverged", diverged_step=3),
            make_row(seed=3, score=None, status="todo"),
        ],
    )
    merge(tmp_path / "copy", [tmp_path / "a"])
    assert contents(tmp_path / "copy") == contents(tmp_path / "a")
    with Store.open(tmp_path / "a") as one, Store.open(tmp_path / "copy") as two:
        assert one.span() == two.span()  # when it was trained, not when it was copied


def test_a_copy_has_every_field_of_the_result(tmp_path: Path):
    rows = [make_row(seed=seed) for seed in range(2)]
    curve = [
        Evaluation(step, 2.0 / step, math.inf, 0.5, 0.25, {"long": {"accuracy": 0.1}}, 0.75)
        for step in (50, 100)
    ]
    about = {
        "stopped_early": "solved",
        "parameters": 4000,
        "state_size": 64,
        "device": "a GPU",
        "threads": 3,
        "versions": {"torch": "9.9"},
        "drift": ("from step 2: a", "and b"),
    }
    with Store.create(tmp_path / "a") as store:
        store.wall = itertools.count(1e9).__next__
        plan(store, rows)
        ids = [row.run_id for row in rows]
        for _ in range(2):
            store.release(store.claim(ids, "me", 60.0))
        claims = store.claim(ids, "me", 60.0)
        store.record(claims, [(run_id, curve[0]) for run_id in ids])
        store.finish([Result(ids[0], claims[ids[0]], "done", 100, 2.5, curve[1], **about)])
        store.finish([Result(ids[1], claims[ids[1]], "diverged", 60, math.inf, diverged_step=57)])
    merge(tmp_path / "copy", [tmp_path / "a"])
    assert contents(tmp_path / "copy") == contents(tmp_path / "a")
    spans = []
    for folder in ("a", "copy"):
        with Store.open(tmp_path / folder, read_only=True) as store:
            spans.append(store.span())
    assert spans[0] == spans[1]
    assert 1e9 < spans[0][0] < spans[0][1]
    row = contents(tmp_path / "copy")[0][ids[0]]
    assert {name: getattr(row, name) for name in about} == about
    assert row.attempt == 3


def test_an_attempt_is_counted_on_where_more_were_made_here(tmp_path: Path):
    row = make_row(seed=1)
    make_store(tmp_path / "a", [replace(row, status="todo")])
    make_store(tmp_path / "b", [row])
    with Store.open(tmp_path / "a") as store:
        for _ in range(3):
            store.release(store.claim([row.run_id], "me", 60.0))
    merge(tmp_path / "a", [tmp_path / "b"])
    assert contents(tmp_path / "a")[0][row.run_id].attempt == 4


def test_a_run_that_a_dead_process_left_is_taken(tmp_path: Path):
    row = make_row(seed=1, score=0.8)
    make_store(tmp_path / "b", [row])
    make_store(tmp_path / "a", [replace(row, status="todo")])
    machine, boot, pid, start = this_process().rsplit("|", 3)
    with Store.open(tmp_path / "a") as store:
        store.claim([row.run_id], f"{machine}|{boot}|{pid}|{int(start) - 1}", 600.0)
    (found,) = merge(tmp_path / "a", [tmp_path / "b"])
    assert (found.held, found.results) == (0, 1)
    assert RunSet.load(tmp_path / "a").rows[0].score == 0.8


def test_a_half_written_curve_here_is_replaced_as_a_whole(tmp_path: Path):
    row = make_row(seed=1, score=0.8)
    make_store(tmp_path / "b", [row])
    make_store(tmp_path / "a", [replace(row, status="todo")])
    with Store.open(tmp_path / "a") as store:
        claims = store.claim([row.run_id], "me", 60.0)
        store.record(claims, [(row.run_id, Evaluation(70, 9.0, 9.0, 0.1, 0.1))])
        store.release(claims)
    merge(tmp_path / "a", [tmp_path / "b"])
    assert contents(tmp_path / "a")[1] == contents(tmp_path / "b")[1]


def test_sweeps_of_one_name_keep_their_own_runs_and_times(tmp_path: Path):
    rows = [make_row(seed=seed) for seed in range(3)]
    make_store(tmp_path / "a", rows[:1], "sweep", "one text", time=1e9)
    make_store(tmp_path / "b", rows[1:], "sweep", "another", time=2e9)
    merge(tmp_path / "into", [tmp_path / "a", tmp_path / "b"])
    with Store.open(tmp_path / "into", read_only=True) as store:
        found = {sweep.source: (sweep.created, set(sweep.run_ids)) for sweep in store.sweeps()}
    ids = [row.run_id for row in rows]
    assert found == {"one text": (1e9, {ids[0]}), "another": (2e9, {*ids[1:]})}


def test_merging_again_changes_nothing(tmp_path: Path, halves):
    merge(tmp_path / "whole", halves)
    before = contents(tmp_path / "whole")
    found = merge(tmp_path / "whole", halves)
    assert [(one.new, one.results, one.equal) for one in found] == [(0, 0, 2), (0, 0, 2)]
    assert contents(tmp_path / "whole") == before
    # Into one of them, of a folder of folders that holds it too.
    (one,) = [found for found in merge(halves[0], [tmp_path]) if found.folder == halves[1]]
    assert (one.results, one.conflicts) == (2, ())


def test_a_conflict_is_told_and_nothing_is_overwritten(tmp_path: Path):
    make_store(tmp_path / "a", [make_row(seed=1, score=0.5), make_row(seed=2, score=0.9)])
    make_store(tmp_path / "b", [make_row(seed=1, score=0.6), make_row(seed=3, score=0.7)])
    before = RunSet.load(tmp_path / "a").rows
    (found,) = merge(tmp_path / "a", [tmp_path / "b"])
    assert (found.results, found.equal) == (1, 0)  # the others are taken over all the same
    assert found.conflicts == (
        f"run {before[0].run_id} (attention lr=0.001 seed=1): done 0.5000 after 100 steps in "
        f"{tmp_path / 'a'}, which counts, done 0.6000 after 100 steps in {tmp_path / 'b'}",
    )
    assert RunSet.load(tmp_path / "a").rows[:2] == before


def test_what_has_no_result_there_is_todo_here_and_a_failure_here_is_replaced(tmp_path: Path):
    failed = make_row(seed=1, score=0.0, status="failed", failure="oom: too large")
    make_store(tmp_path / "a", [failed])
    make_store(tmp_path / "b", [make_row(seed=2, score=None, status="running")])
    merge(tmp_path / "into", [tmp_path / "a", tmp_path / "b"])
    assert {row.status for row in RunSet.load(tmp_path / "into").rows} == {"todo"}
    make_store(tmp_path / "c", [make_row(seed=1, score=0.8)])
    merge(tmp_path / "a", [tmp_path / "c"])
    (row,) = RunSet.load(tmp_path / "a").rows
    assert (row.status, row.score, row.failure) == ("done", 0.8, None)


def test_a_run_that_a_living_process_trains_is_left_to_it(tmp_path: Path):
    make_store(tmp_path / "b", [make_row(seed=1, score=0.8)])
    make_store(tmp_path / "a", [make_row(seed=1, score=None, status="todo")])
    with Store.open(tmp_path / "a") as store:
        store.claim([store.rows()[0].run_id], this_process(), 600.0)
    (found,) = merge(tmp_path / "a", [tmp_path / "b"])
    assert (found.held, found.results) == (1, 0)
    assert RunSet.load(tmp_path / "a").rows[0].status == "running"


def test_a_copy_made_while_a_store_is_written_takes_what_has_ended(tmp_path: Path):
    rows = [make_row(seed=seed, score=seed / 10) for seed in range(1, 4)]
    with Store.create(tmp_path / "live") as live:
        plan(live, rows)
        finish(live, [rows[0], make_row(seed=2, score=None, status="running")])
        (first,) = merge(tmp_path / "copy", [tmp_path / "live"])
        assert (first.new, first.results, first.equal) == (3, 1, 0)
        copied = {row.spec["seed"]: row.status for row in RunSet.load(tmp_path / "copy").rows}
        assert copied == {1: "done", 2: "todo", 3: "todo"}
        finish(live, rows[2:])
        (second,) = merge(tmp_path / "copy", [tmp_path / "live"])
        assert (second.new, second.results, second.equal) == (0, 1, 1)
        assert [row.status for row in live.rows()].count("running") == 1  # it keeps its claim


def test_what_cannot_be_merged_is_named_before_anything_is_written(tmp_path: Path, halves):
    (tmp_path / "link").symlink_to(halves[0])
    for same in (halves[0], halves[1] / ".." / halves[0].name, tmp_path / "link"):
        with pytest.raises(SpecError, match="nothing to merge into"):
            merge(halves[0], [same])
    with pytest.raises(SpecError, match=f"no results in {tmp_path / 'none'}"):
        merge(tmp_path / "into", [halves[0], tmp_path / "none"])
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / FILE).write_bytes(b"not a database at all" * 500)
    with pytest.raises(StoreError, match=str(bad)):
        merge(tmp_path / "into", [halves[0], bad])
    assert not (tmp_path / "into").exists()


def spoil(folder: Path, change: str, run_id: str) -> None:
    """Change a run as no program of ours does."""
    connection = sqlite3.connect(folder / FILE)
    register(connection)
    for (name,) in list(connection.execute("SELECT name FROM sqlite_master WHERE type='trigger'")):
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(f"{change} run_id = ?", [run_id])
    connection.commit()
    connection.close()


DAMAGES = {
    "row": "UPDATE runs SET wall_s = 7 WHERE",
    "last point": "UPDATE evaluations SET exact = 7 WHERE step = 100 AND",
    "a point": "UPDATE evaluations SET exact = 7 WHERE step = 50 AND",
    "id": """UPDATE runs SET spec = replace(spec, '"seed": 2', '"seed": 7') WHERE""",
}


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_row_costs_its_run_alone_and_is_named(tmp_path: Path, damage: str, planned: bool):
    """It is no result of INTO, in part neither; a folder that has it whole still gives it."""
    rows = [make_row(seed=seed, score=0.5) for seed in range(3)]
    make_store(tmp_path / "bad", rows)
    if planned:
        make_store(tmp_path / "into", [replace(row, status="todo") for row in rows])
    spoil(tmp_path / "bad", DAMAGES[damage], rows[2].run_id)
    with noticing_damage() as noticed:
        (found,) = merge(tmp_path / "into", [tmp_path / "bad"])
    assert (found.results, found.damaged, found.conflicts) == (2, 1, ())
    assert noticed
    for line in noticed:
        assert line.startswith(f"{tmp_path / 'bad'}: ")
        assert f"run {rows[2].run_id}" in line
    there = {row.spec["seed"]: row.status for row in RunSet.load(tmp_path / "into").rows}
    is_planned = planned or damage == "a point"  # its row, and so its specification, is sound
    assert there == {0: "done", 1: "done"} | ({2: "todo"} if is_planned else {})
    with Store.open(tmp_path / "into") as store:
        assert store.check() == []
        assert len(store.sweeps()[0].run_ids) == (3 if is_planned else 2)
    before = contents(tmp_path / "into")
    assert merge(tmp_path / "into", [tmp_path / "bad"])[0].results == 0
    assert contents(tmp_path / "into") == before
    make_store(tmp_path / "good", rows[2:])
    (found,) = merge(tmp_path / "into", [tmp_path / "good"])
    assert (found.results, found.damaged) == (1, 0)
    assert (
        contents(tmp_path / "into")[1][rows[2].run_id]
        == contents(tmp_path / "good")[1].popitem()[1]
    )


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_in_the_target_is_no_conflict_and_a_new_folder_repairs_it(
    tmp_path: Path, damage: str
):
    rows = [make_row(seed=seed, score=0.5) for seed in range(4)]
    make_store(tmp_path / "into", rows[:3])
    make_store(tmp_path / "other", rows[2:])
    spoil(tmp_path / "into", DAMAGES[damage], rows[2].run_id)
    with noticing_damage() as noticed:
        (found,) = merge(tmp_path / "into", [tmp_path / "other"])
    assert (found.new, found.results, found.damaged, found.conflicts) == (1, 1, 1, ())
    assert all(line.startswith(f"{tmp_path / 'into'}: ") for line in noticed)
    assert f"run {rows[2].run_id}" in noticed[0]
    merge(tmp_path / "new", [tmp_path / "into", tmp_path / "other"])
    whole = contents(tmp_path / "new")[0]
    assert {row.spec["seed"]: row.status for row in whole.values()} == dict.fromkeys(
        range(4), "done"
    )


def test_a_result_that_lacks_points_of_its_curve_is_not_taken(tmp_path: Path, make_run):
    runs = [make_run(seed=seed) for seed in range(2)]
    steps = runs[0].train.evaluation_steps()
    with Store.create(tmp_path / "bad") as store:
        engine.plan(store, Sweep("sweep", "", tuple(runs)))
        claims = store.claim([run.run_id for run in runs], "me", 60.0)
        for step in steps[:-1]:
            point = Evaluation(step, 1.0, 1.0, 0.1, 0.1)
            store.record(claims, [(run_id, point) for run_id in claims])
        last = Evaluation(steps[-1], 1.0, 1.0, 0.1, 0.1)
        store.finish(Result(run, n, "done", steps[-1], 1.0, last) for run, n in claims.items())
    spoil(tmp_path / "bad", f"DELETE FROM evaluations WHERE step = {steps[0]} AND", runs[1].run_id)
    with noticing_damage() as noticed:
        (found,) = merge(tmp_path / "into", [tmp_path / "bad"])
    assert (found.results, found.damaged) == (1, 1)
    assert noticed == [
        f"{tmp_path / 'bad'}: run {runs[1].run_id}: its curve lacks 1 point, the first at step "
        f"{steps[0]}; left out"
    ]
    assert [row.status for row in RunSet.load(tmp_path / "into").rows] == ["done", "todo"]


def test_a_file_that_fails_its_check_is_named_before_anything_is_written(
    tmp_path: Path, halves, monkeypatch
):
    monkeypatch.setattr(Store, "check", lambda store: ["row 7 missing from index runs_by_status"])
    with pytest.raises(StoreError, match=r"damaged \(row 7 missing .*\); nothing was merged"):
        merge(tmp_path / "into", halves)
    assert not (tmp_path / "into").exists()


def test_an_id_with_another_specification_is_left_out(tmp_path: Path):
    one = make_row(seed=1)
    other = make_row(seed=2, run_id=one.run_id)
    make_store(tmp_path / "a", [one])
    make_store(tmp_path / "b", [other])
    before = contents(tmp_path / "a")
    (found,) = merge(tmp_path / "a", [tmp_path / "b"])
    assert (found.runs, found.damaged) == (0, 1)
    assert contents(tmp_path / "a")[:2] == before[:2]


@pytest.mark.parametrize(
    ("where", "passing"), [("store.written", 1), ("store.written", 2), ("store.committed", 2)]
)
def test_a_process_that_is_killed_has_copied_a_store_or_nothing_of_it(
    tmp_path: Path, halves, where: str, passing: int
):
    into = tmp_path / "into"
    merge(tmp_path / "expected", halves)
    script = "import sys, pathlib; from recollect.store.joining.merging import merge; "
    script += "merge(pathlib.Path(sys.argv[1]), [pathlib.Path(at) for at in sys.argv[2:]])"
    ended = subprocess.run(
        [sys.executable, "-c", script, into, *halves],
        env=os.environ | {failpoint.VARIABLE: f"{where}:{passing}"},
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    if (into / FILE).exists():
        with Store.create(into) as store:
            assert store.check() == []
            assert store.counts()["running"] == 0
            assert store.counts()["done"] in (0, 2, 4)
    merge(into, halves)
    assert contents(into) == contents(tmp_path / "expected")
