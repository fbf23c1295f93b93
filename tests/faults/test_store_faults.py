"""The store under kill -9, crowds, stalls and full disks: what it acknowledged stays, what it
cannot keep it says.
"""

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
import store_workers
from harness import Child, child, kill_at_random, preload
from store_workers import LAST_STEP, MEMBERS, measured, planned

from recollect.errors import SpecError
from recollect.store import Result, Store, checkpoint, failpoint
from recollect.store.database import FILE
from recollect.store.durable import sweep_orphans
from recollect.store.ownership import this_process

preload("store_workers")


def test_kill_9_loses_no_acknowledged_result(tmp_path: Path, kill_seed: int) -> None:
    seen = 0
    for life in range(
        5
    ):  # of a folder: every check reads all of it, which would take longer and longer
        folder, journal = tmp_path / f"out{life}", tmp_path / f"journal{life}"
        kills = kill_at_random(
            journal,
            store_workers.write_for_ever,
            folder,
            seed=kill_seed + life,
            kills=40,
            longest_s=0.04,
            most_lines=3,
        )
        for count, packs in enumerate(kills, start=1):
            if not packs or count % 5:
                continue
            with Store.open(folder, read_only=True) as store:
                rows = {row.run_id: row for row in store.rows()}
                assert sum(store.counts().values()) == len(rows)
                if count == 40:
                    assert store.check() == []
            for run_id in " ".join(packs).split():
                assert rows[run_id].status == "done"
                assert rows[run_id].accuracy == measured(run_id, 2).accuracy
            # Four finish together: never is a pack done in part.
            finished = Counter(
                run_id.split("-")[0] for run_id, row in rows.items() if row.is_finished
            )
            assert set(finished.values()) == {4}
        seen += len(packs)
    assert seen > 200, "so many were waited for"


def picture(folder: Path) -> object:
    """What a user could see of a folder, without attempts and owners."""
    if not (folder / FILE).exists():
        return "nothing"
    try:
        with Store.open(folder, read_only=True) as store:
            held = {row.run_id: (row.is_finished, row.steps, row.accuracy) for row in store.rows()}
            curves = {run_id: [at.step for at in curve] for run_id, curve in store.curves().items()}
    except SpecError:  # killed between making the file and making its tables
        return "nothing"
    found = checkpoint.find(folder / "checkpoints")
    assert found.problems == ()
    return (
        held,
        curves,
        [entry.step for entry in found.saved][-1:],
        len(found.saved) <= checkpoint.KEEP + 1,
    )


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    folder = tmp_path_factory.mktemp("reference") / "out"
    return [picture(folder), *(picture(folder) for _ in store_workers.script(folder))]


@pytest.mark.parametrize(
    "name",
    [name for name in failpoint.NAMES if name.split(".")[0] in ("file", "store", "checkpoint")],
)
def test_death_at_a_failpoint_leaves_the_old_or_the_new(
    tmp_path: Path, name: str, pictures: list[object]
) -> None:
    for passing in (1, 2, 3, 7):
        folder, journal = tmp_path / f"out{passing}", tmp_path / f"journal{passing}"
        armed = {failpoint.VARIABLE: f"{name}:{passing}"}
        with child(journal, store_workers.follow_script, folder, environment=armed) as dying:
            code = dying.end()
        if code == 0:
            assert passing > 1, "the script never passes this point"
            continue
        assert code == -signal.SIGKILL
        step = len(dying.acknowledged())
        assert picture(folder) in pictures[step : step + 2]
        with child(journal, store_workers.follow_script, folder) as healing:
            assert healing.end() == 0
        assert picture(folder) == pictures[-1]
        sweep_orphans(folder / "checkpoints")
        assert not list(folder.rglob("*.tmp"))
        with Store.open(folder) as store:
            assert [at.step for at in store.curve(MEMBERS[0])] == [10, 20, LAST_STEP]
            assert store.check() == []


def test_eight_processes_claim_each_run_once(tmp_path: Path) -> None:
    folder, runs = tmp_path / "out", 2000
    with Store.create(folder) as store:
        store.plan(planned([f"{serial:04d}" for serial in range(runs)]), "crowd", "source")
    crowd = [
        Child(tmp_path / f"journal{seed}", store_workers.claim_all, folder, seed)
        for seed in range(8)
    ]
    try:
        for member in crowd:
            member.wait_for("ready")
        assert [member.end() for member in crowd] == [0] * 8
    finally:
        for member in crowd:
            member.kill()
    claims = [line for member in crowd for line in member.acknowledged() if line != "ready"]
    assert sorted(claims) == [f"{serial:04d} 1" for serial in range(runs)]
    assert sum(len(member.acknowledged()) > 1 for member in crowd) > 1, (
        "one process claimed everything: nothing was contested"
    )


def wait_until_stopped(process: int) -> None:
    state = Path(f"/proc/{process}/stat")
    deadline = time.monotonic() + 120
    while state.read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline, "it never stopped"
        time.sleep(0.005)


def test_a_stalled_worker_writes_nothing_after_it_was_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with Store.create(folder) as store:
        store.plan(planned(list(MEMBERS)), "stall", "source")
        with child(tmp_path / "journal", store_workers.stall, folder, 60) as stalled:
            stalled.wait_for("claimed")
            wait_until_stopped(stalled.process.pid)
            assert store.reclaim() == [], "its lease holds"
            clock = store.clock
            store.clock = lambda: clock() + 61
            assert sorted(store.reclaim()) == list(MEMBERS)
            claims = store.claim(MEMBERS, this_process(), 60)
            store.record(claims, [(run_id, measured(run_id, 1)) for run_id in MEMBERS])
            os.kill(stalled.process.pid, signal.SIGCONT)
            assert stalled.end() == 0
            assert stalled.acknowledged()[-1] == f"refused {[True] * 6}"
        store.finish(
            Result(run_id, attempt, "done", 2, 0.5, measured(run_id, 2))
            for run_id, attempt in claims.items()
        )
        for row in store.rows():
            assert (row.status, row.attempt, row.accuracy) == (
                "done",
                2,
                measured(row.run_id, 2).accuracy,
            )
            assert [at.step for at in store.curve(row.run_id)] == [1, 2]
        assert sum(note.kind == "late" for note in store.notes()) == 2 * len(MEMBERS)


def test_every_reading_beside_two_writers_adds_up(tmp_path: Path) -> None:
    folder, runs = tmp_path / "out", 1200
    with Store.create(folder) as store:
        store.plan(planned([f"{serial:04d}" for serial in range(runs)]), "busy", "source")
    shares = set()
    with (
        child(tmp_path / "a", store_workers.work_off, folder) as first,
        child(tmp_path / "b", store_workers.work_off, folder) as second,
    ):
        for _ in range(20):
            with Store.open(folder, read_only=True) as store:
                for reading in range(50):
                    counts = store.counts()
                    assert sum(counts.values()) == runs
                    shares.add(counts["done"])
                    if reading % 25 == 0:
                        rows = store.rows()
                        assert len(rows) == runs
                        assert all((row.status == "done") == (row.steps == 2) for row in rows)
        assert first.end() == second.end() == 0
    assert len(shares) > 20, "the writers were not at work"
    with Store.open(folder) as store:
        assert store.counts()["done"] == runs


def test_a_full_disk_is_said_and_costs_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    limits = [
        0,
        1,
        4096,
        20_000,
        32_768,
        33_000,
        50_000,
        80_000,
        120_000,
        200_000,
        300_000,
        1_000_000,
    ]
    with child(tmp_path / "journal", store_workers.fill_the_disk, folder, limits) as filling:
        assert filling.end() == 0
    outcomes = dict(line.split(" ", 1) for line in filling.acknowledged())
    assert list(outcomes) == [str(limit) for limit in limits]
    for limit, outcome in outcomes.items():
        with Store.open(folder / limit) as store:
            assert store.check() == []
            assert sum(store.counts().values()) == (1001 if outcome == "planned" else 1)
        if outcome != "planned":
            assert str(folder / limit / FILE) in outcome
            assert "free space, then `recollect resume" in outcome
    assert outcomes["0"] != "planned"
    assert outcomes["1000000"] == "planned"


def test_a_writer_waits_for_another(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with (
        Store.create(folder) as store,
        child(tmp_path / "journal", store_workers.hold_the_lock, folder, 0.5) as holder,
    ):
        holder.wait_for("locked")
        store.note("test", "after the other")
        assert holder.acknowledged()[-1] == "lets go", "the other one still held it"
        assert holder.end() == 0
