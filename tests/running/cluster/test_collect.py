"""The collector: every run once, whatever spools say how often."""

import random
import sqlite3
import tempfile
import tracemalloc
from pathlib import Path
from urllib.parse import quote

import pytest
from cluster_made import curve, ended, failed, make_attempt, make_plan, make_run, name

from recollect.running.cluster.collect import Collector, collect_once
from recollect.running.cluster.frames import frame, split_frames
from recollect.running.cluster.history import read_history
from recollect.running.cluster.plan import Plan
from recollect.running.cluster.spool import Attempt, Spool, checkpoint_folder, spool_folder
from recollect.running.results import RunSet
from recollect.store import Store
from recollect.store.ownership import this_process


def statuses(plan: Plan) -> dict[str, str]:
    return {row.run_id: row.status for row in RunSet.load(plan.folder).rows}


def complete(plan: Plan, pack: int, attempt: str = "1-made-a") -> None:
    make_attempt(plan, pack, attempt, [ended(name(pack, run)) for run in range(3)])


def test_spools_become_a_store(tmp_path: Path):
    plan = make_plan(tmp_path / "out")
    complete(plan, 1)
    found = collect_once(plan)
    assert [pack.done for pack in found.packs] == [0, 3]
    results = RunSet.load(plan.folder)
    assert [row.status for row in results.rows] == ["todo"] * 3 + ["done"] * 3
    assert results.curves[name(1, 0)] == [point for _, point in curve(name(1, 0))]
    assert results.rows[3].accuracy == 0.3


def test_collecting_again_changes_nothing(tmp_path: Path):
    plan = make_plan(tmp_path / "out")
    complete(plan, 0)
    first = collect_once(plan)
    rows = RunSet.load(plan.folder).rows
    assert collect_once(plan).packs == first.packs
    assert RunSet.load(plan.folder).rows == rows
    with Collector(plan) as collector:
        assert collector.collect().new == 3
        assert collector.collect().new == 0


def test_what_grows_is_taken_in_as_it_grows(tmp_path: Path):
    plan = make_plan(tmp_path / "out", packs=1)
    with Collector(plan) as collector:
        assert collector.collect().new == 0
        make_attempt(plan, 0, "1-made-a", [ended(name(0, 0))], end="")
        assert collector.collect().new == 1
        make_attempt(plan, 0, "2-made-b", [ended(name(0, 1)), ended(name(0, 2))])
        found = collector.collect()
        assert found.new == 2
        assert found.is_complete
        collector.publish()
    assert set(statuses(plan).values()) == {"done"}


def test_a_late_attempt_with_equal_numbers_changes_nothing(tmp_path: Path):
    plan = make_plan(tmp_path / "out", packs=1)
    complete(plan, 0, "2-made-b")
    make_attempt(plan, 0, "1-made-a", [ended(name(0, 0))])
    found = collect_once(plan)
    assert found.is_complete
    assert not found.conflicts


@pytest.mark.parametrize("at_once", [True, False])
def test_attempts_that_differ_are_kept_aside(tmp_path: Path, at_once: bool):
    plan = make_plan(tmp_path / "out", packs=1)
    make_attempt(plan, 0, "1-made-a", [ended(name(0, run)) for run in range(3)], end="")
    with Collector(plan) as collector:
        if not at_once:
            assert collector.collect().new == 3
        make_attempt(plan, 0, "2-made-b", [ended(name(0, 1), 0.01)], 0.01)
        found = collector.collect()
        collector.publish()
    assert [(c.run_id, c.attempts) for c in found.conflicts] == [
        (name(0, 1), ("1-made-a", "2-made-b"))
    ]
    assert statuses(plan) == {name(0, 0): "done", name(0, 1): "todo", name(0, 2): "done"}


@pytest.mark.parametrize(("settle", "accuracy"), [("first", 0.3), ("last", 0.31)])
def test_a_person_may_settle_it(tmp_path: Path, settle: str, accuracy: float):
    plan = make_plan(tmp_path / "out", packs=1)
    make_attempt(plan, 0, "1-made-a", [ended(name(0, 1))])
    make_attempt(plan, 0, "2-made-b", [ended(name(0, 1), 0.01)], 0.01)
    assert not collect_once(plan, settle).conflicts  # type: ignore[arg-type]
    assert RunSet.load(plan.folder).rows[1].accuracy == accuracy


def test_a_last_point_that_differs_is_a_conflict_too(tmp_path: Path):
    plan = make_plan(tmp_path / "out", packs=1)
    make_attempt(plan, 0, "1-made-a", [ended(name(0, 1))])
    make_attempt(plan, 0, "2-made-b", [ended(name(0, 1), 1e-12)])
    assert collect_once(plan).conflicts


def test_success_elsewhere_replaces_a_failure(tmp_path: Path):
    plan = make_plan(tmp_path / "out", packs=1, runs=1)
    make_attempt(plan, 0, "1-made-a", [failed(name(0, 0))])
    with Collector(plan) as collector:
        collector.collect()
        collector.publish()
        assert statuses(plan) == {name(0, 0): "failed"}
    make_attempt(plan, 0, "2-made-b", [ended(name(0, 0))])
    found = collect_once(plan)
    assert statuses(plan) == {name(0, 0): "done"}
    assert not found.conflicts


def test_a_torn_spool_gives_its_whole_records(tmp_path: Path):
    plan = make_plan(tmp_path / "out", packs=1)
    complete(plan, 0)
    path = next(spool_folder(plan.folder, 0).glob("*.spool"))
    content = path.read_bytes()
    done = set()
    for cut in range(0, len(content) + 1, len(content) // 24):
        path.write_bytes(content[:cut])
        found = collect_once(plan)
        assert not found.problems
        rows = RunSet.load(plan.folder)
        for row in rows.rows:
            assert row.status in ("todo", "done")
            assert row.status == "todo" or len(rows.curves[row.run_id]) == 3
        done.add(found.packs[0].done)
    assert done == {0, 1, 2, 3}


def test_a_spool_that_grows_byte_by_byte(tmp_path: Path):
    """At whichever byte a record is cut: nothing of it counts before its last one is there."""
    made = make_plan(tmp_path / "made", packs=1, runs=1)
    make_attempt(made, 0, "1-made-a", [ended(name(0, 0))])
    whole = next(spool_folder(made.folder, 0).glob("*.spool")).read_bytes()
    lengths = [len(frame(body)) for body in split_frames(whole)[0]]
    assert len(lengths) == 5  # begin, trying, points, results, end
    plan = make_plan(tmp_path / "out", packs=1, runs=1)
    path = spool_folder(plan.folder, 0) / "1-made-a.spool"
    path.parent.mkdir(parents=True)
    taken, seen = [], []
    with Collector(plan) as collector:
        for cut in range(len(whole) + 1):
            path.write_bytes(whole[:cut])
            found = collector.collect()
            assert not found.problems
            taken += [cut] * found.new
            seen += [cut] * len(read_history(plan.folder, 0, {name(0, 0): make_run(0, 0)}).results)
        assert found.is_complete
        collector.publish()
    assert taken == [sum(lengths[:4])]
    assert seen == list(range(taken[0], len(whole) + 1))  # by an attempt that begins now
    grown = RunSet.load(plan.folder)
    collect_once(made)
    alone = RunSet.load(made.folder)
    assert (grown.rows, grown.curves) == (alone.rows, alone.curves)


def test_a_damaged_spool_is_reported_and_costs_its_rest(tmp_path: Path):
    plan = make_plan(tmp_path / "out", packs=1)
    complete(plan, 0)
    path = next(spool_folder(plan.folder, 0).glob("*.spool"))
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    found = collect_once(plan)
    assert len(found.problems) == 1
    assert "damaged at byte" in found.problems[0]
    assert set(statuses(plan).values()) == {"todo"}


def test_a_record_of_another_kind_is_reported(tmp_path: Path):
    plan = make_plan(tmp_path / "out", packs=1)
    folder = spool_folder(plan.folder, 0)
    folder.mkdir(parents=True)
    (folder / "1-made-a.spool").write_bytes(frame(b'{"sequence": 0, "kind": "?", "content": 1}'))
    assert "record 0 is none of ours" in collect_once(plan).problems[0]


def test_checkpoints_of_complete_packs_are_removed(tmp_path: Path):
    plan = make_plan(tmp_path / "out")
    complete(plan, 0)
    for pack in (0, 1):
        folder = checkpoint_folder(plan.folder, pack) / "1-made-a"
        folder.mkdir(parents=True)
        (folder / "x.ckpt").touch()
    collect_once(plan)
    left = [path.relative_to(plan.folder) for path in plan.folder.glob("checkpoints/*/*/*")]
    assert [path.parts[1] for path in left] == ["000001"]


def test_a_reader_never_sees_half_a_store(tmp_path: Path):
    """Publishing replaces the file: who has the old one open reads it to its end."""
    plan = make_plan(tmp_path / "out")
    complete(plan, 0)
    collect_once(plan)
    reader = sqlite3.connect(f"file:{plan.folder / 'recollect.db'}?mode=ro", uri=True)
    count = "SELECT count(*) FROM runs WHERE status = 'done'"
    assert reader.execute(count).fetchone() == (3,)
    complete(plan, 1)
    collect_once(plan)
    assert reader.execute(count).fetchone() == (3,)
    reader.close()
    assert list(statuses(plan).values()).count("done") == 6


def test_a_slow_collector_does_not_replace_a_newer_store(tmp_path: Path):
    """Of two at once, each with what it has read, the one that has read more stays."""
    plan = make_plan(tmp_path / "out")
    complete(plan, 0)
    with Collector(plan) as slow:
        slow.collect()
        complete(plan, 1)
        collect_once(plan)
        newest = (plan.folder / "recollect.db").read_bytes()
        slow.publish()
        assert (plan.folder / "recollect.db").read_bytes() == newest
        slow.collect()
        slow.publish()
    assert set(statuses(plan).values()) == {"done"}
    for spoilt in (b"", b"no database", newest[:5000]):
        (plan.folder / "recollect.db").write_bytes(spoilt)
        collect_once(plan)
        assert set(statuses(plan).values()) == {"done"}


def test_memory_does_not_grow_with_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What is collected is forgotten: of each pack a line stays."""
    monkeypatch.setattr("recollect.running.cluster.collect.BATCH", 32)
    peaks = []
    for packs in (10, 40):
        plan = make_plan(tmp_path / f"{packs}", packs, runs=8)
        for pack in range(packs):
            make_attempt(plan, pack, "1-made-a", [ended(name(pack, run)) for run in range(8)])
        with Collector(plan) as collector:
            tracemalloc.start()
            assert collector.collect().is_complete
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    # Eight runs with their curves would take some 20 kB.
    assert (peaks[1] - peaks[0]) / 30 < 2_000


def test_following_ends_with_the_last_run(tmp_path: Path):
    """Each look publishes what it found; nothing is written where nothing is new."""
    plan = make_plan(tmp_path / "out", packs=2)
    dones, written = [], []

    def wait(seconds: float) -> bool:
        assert seconds >= 10.0
        written.append((plan.folder / "recollect.db").stat().st_ino)
        if len(dones) == 2:
            complete(plan, 0)
        if len(dones) == 3:
            complete(plan, 1)
        return True

    with Collector(plan) as collector:
        for found in collector.follow(wait):
            dones.append(sum(pack.done for pack in found.packs))
    assert dones == [0, 0, 3, 6]
    assert written[0] == written[1] != written[2]
    assert set(statuses(plan).values()) == {"done"}


def test_remarks_of_attempts_go_into_the_store(tmp_path: Path):
    plan = make_plan(tmp_path / "out", packs=1)
    spool = Spool(plan.folder, 0, Attempt("1-made-a"), {})
    spool.note("memory", "6 runs did not fit")
    spool.end("stopped")
    with Collector(plan) as collector:
        collector.collect()
        collector.collect()
        collector.publish()
    with Store.open(plan.folder, read_only=True) as store:
        assert [(note.kind, note.text) for note in store.notes()] == [
            ("memory", "pack 0: 6 runs did not fit")
        ]


def test_any_order_of_looks_gives_the_same_store(tmp_path: Path):
    order = random.Random(0)
    plan = make_plan(tmp_path / "out", packs=4)
    pieces = [(pack, run) for pack in range(4) for run in range(3)]
    order.shuffle(pieces)
    with Collector(plan) as collector:
        for number, (pack, run) in enumerate(pieces):
            make_attempt(plan, pack, f"{number + 1}-made-a", [ended(name(pack, run))])
            if order.random() < 0.5:
                collector.collect()
        collector.collect()
        collector.publish()
    grown = RunSet.load(plan.folder)
    collect_once(plan)
    fresh = RunSet.load(plan.folder)
    assert grown.rows == fresh.rows
    assert grown.curves == fresh.curves


def test_what_a_killed_collector_left_is_removed_and_that_of_a_living_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plan = make_plan(tmp_path / "out", packs=1)

    def scratch() -> set[str]:
        return {path.name for path in tmp_path.glob("recollect-collect-*")}

    machine, clock, _, start = this_process().rsplit("|", 3)
    (tmp_path / f"recollect-collect-{quote(f'{machine}|{clock}|999999999|{start}')}.dead").mkdir()
    (tmp_path / "recollect-collect-of-nobody").mkdir()
    with Collector(plan):
        first = scratch()
        assert len(first) == 2
        with Collector(plan):
            assert scratch() > first
    assert scratch() == {"recollect-collect-of-nobody"}
