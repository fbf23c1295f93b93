"""Nodes and collectors of a cluster, killed anywhere: every run once, equal to one process's."""

import random
import sqlite3
from collections.abc import Callable
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


def test_a_collector_killed_at_random(tmp_path: Path, kill_seed: int):
    """Whoever reads the folder meanwhile finds a whole database."""
    plan = make(tmp_path / "out", run_workers.M, 2)
    train_rest(plan, tmp_path / "trained")
    collect_once(plan)
    whole = RunSet.load(plan.folder)
    for _ in kill_at_random(
        tmp_path / "journal",
        cluster_workers.collect,
        plan.folder,
        seed=kill_seed,
        kills=10,
        longest_s=0.4,
    ):
        reader = sqlite3.connect(plan.folder / "recollect.db")
        assert reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        reader.close()
    assert RunSet.load(plan.folder).rows == whole.rows
