"""Nodes and collectors of a cluster, killed anywhere: every run once, equal to one process's."""

import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from itertools import cycle
from pathlib import Path

import cluster_workers
import pytest
import run_workers
from harness import child, kill_at_random, preload

from recollect.running.cluster.collect import collect_once
from recollect.running.cluster.draft import draft_packs, draft_sweep
from recollect.running.cluster.plan import Plan
from recollect.running.results import RunSet
from recollect.spec.sweep import parse_sweep
from recollect.store.failpoint import VARIABLE

preload("cluster_workers", "run_workers", "warm")

Reference = Callable[[str, int], dict[str, str]]
PLACES = [
    "spool.written:1", "spool.written:3", "spool.synced:4", "spool.synced:12", "file.created:1",
    "file.written:2", "file.synced:3", "file.renamed:2", "checkpoint.pruned:2", "store.written:4",
    "store.committed:6",
]  # fmt: skip


def make(folder: Path, text: str, most: int) -> Plan:
    sweep = parse_sweep(text)
    return draft_sweep(folder, sweep, draft_packs(sweep.runs, "cpu", most_runs=most)).write()


def train_rest(plan: Plan, journal: Path) -> None:
    for index in range(len(plan.packs)):
        with child(journal, cluster_workers.attempt, plan.folder, index) as running:
            assert running.end() == 0


@pytest.mark.parametrize("place", PLACES)
def test_a_death_at_any_place_loses_nothing(tmp_path: Path, reference: Reference, place: str):
    plan = make(tmp_path / "out", run_workers.M, 3)
    dying = {VARIABLE: place}
    with child(
        tmp_path / "dead", cluster_workers.attempt, plan.folder, 0, environment=dying
    ) as running:
        assert running.end() == -9
    train_rest(plan, tmp_path / "journal")
    found = collect_once(plan)
    assert found.is_complete
    assert not found.problems
    assert run_workers.outcome(plan.folder) == reference(run_workers.M, 6)


def test_nodes_killed_at_random(tmp_path: Path, reference: Reference, kill_seed: int):
    plan = make(tmp_path / "out", run_workers.T, 3)
    packs = cycle(range(len(plan.packs)))
    chances = random.Random(kill_seed)
    for number in range(12):
        for _ in kill_at_random(
            tmp_path / f"journal{number}",
            cluster_workers.attempt,
            plan.folder,
            next(packs),
            seed=chances.randrange(2**31),
            kills=1,
            longest_s=0.6,
        ):
            collect_once(plan)
    train_rest(plan, tmp_path / "journal")
    found = collect_once(plan)
    assert found.is_complete
    assert not found.conflicts
    assert run_workers.outcome(plan.folder) == reference(run_workers.T, 6)


NEVER = 10**9


# Records of spools and pieces of checkpoints that find room: none, some, all of one of the two.
@pytest.mark.parametrize(
    "room", [(0, NEVER), (1, NEVER), (7, NEVER), (NEVER, 0), (NEVER, 30), (12, 40)]
)
def test_a_full_disk_ends_a_task_that_can_be_resumed(
    tmp_path: Path, reference: Reference, room: tuple[int, int]
):
    """Exit 4, which nothing requeues, and one complaint; what was finished is safe."""
    plan = make(tmp_path / "out", run_workers.M, 3)
    prefix = tmp_path / "full"
    with child(
        tmp_path / "journal", cluster_workers.on_full_disk, prefix, plan.folder, 0, room
    ) as running:
        assert running.end() == 4
    said = prefix.with_suffix(".err").read_text()
    assert said.startswith("recollect: ")
    assert "no room for" in said
    assert said.count("\n") <= 3
    before = collect_once(plan)
    assert not before.problems
    assert not list(plan.folder.rglob("*.tmp"))
    train_rest(plan, tmp_path / "rest")
    assert collect_once(plan).is_complete
    assert run_workers.outcome(plan.folder) == reference(run_workers.M, 6)


def assert_whole(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "recollect.db")) as reader:
        assert reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_collector_killed_fifty_times(tmp_path: Path, kill_seed: int):
    """While packs end one by one; whoever reads the folder meanwhile finds a whole database."""
    plan = make(tmp_path / "out", run_workers.M, 2)
    whole = make(tmp_path / "whole", run_workers.M, 2)
    train_rest(whole, tmp_path / "trained")
    collect_once(whole)
    spools = sorted((whole.folder / "spool").rglob("*.spool"))
    collect_once(plan)
    killed = kill_at_random(
        tmp_path / "journal",
        cluster_workers.collect,
        plan.folder,
        seed=kill_seed,
        kills=50,
        longest_s=0.2,
    )
    for number, _ in enumerate(killed):
        if number % 10 == 5 and spools:
            spool = spools.pop()
            target = plan.folder / spool.relative_to(whole.folder)
            target.parent.mkdir(parents=True)
            target.write_bytes(spool.read_bytes())
        assert_whole(plan.folder)
    assert number == 49
    assert not spools
    collect_once(plan)
    found, wanted = RunSet.load(plan.folder), RunSet.load(whole.folder)
    assert (found.rows, found.curves) == (wanted.rows, wanted.curves)


def test_two_collectors_at_once(tmp_path: Path, reference: Reference):
    """Both publish while packs train; one is killed, the other is not disturbed."""
    plan = make(tmp_path / "out", run_workers.M, 3)
    collect_once(plan)
    with (
        child(tmp_path / "one", cluster_workers.collect, plan.folder) as one,
        child(tmp_path / "two", cluster_workers.collect, plan.folder) as two,
    ):
        for index in range(len(plan.packs)):
            with child(tmp_path / "work", cluster_workers.attempt, plan.folder, index) as worker:
                while worker.process.is_alive():
                    assert_whole(plan.folder)
                    assert len(RunSet.load(plan.folder).rows) == plan.runs
                    time.sleep(0.05)
                assert worker.end() == 0
            one.kill()
        seen = len(two.acknowledged())
        end = time.monotonic() + 600
        while len(two.acknowledged()) < seen + 2:  # one look that began after the last pack's end
            assert two.process.is_alive()
            assert time.monotonic() < end
            time.sleep(0.05)
    assert run_workers.outcome(plan.folder) == reference(run_workers.M, 6)
