"""Attempts at a pack: stopped, killed, beside one another; the rows equal those of one process."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from recollect.errors import SpecError, Stopped
from recollect.running import engine, pack
from recollect.running.cluster import attempt as attempts_module
from recollect.running.cluster.attempt import work_on_pack
from recollect.running.cluster.collect import collect_once
from recollect.running.cluster.draft import draft_packs, draft_sweep
from recollect.running.cluster.history import read_history
from recollect.running.cluster.plan import Plan, read_plan
from recollect.running.cluster.spool import (
    Attempt,
    Spool,
    attempts,
    checkpoint_folder,
    read_spool,
    spool_folder,
)
from recollect.running.results import RunSet
from recollect.spec.run import RunSpec
from recollect.spec.sweep import parse_sweep

CPU = torch.device("cpu")
SWEEP = parse_sweep("""
name = "tiny"
[task]
name = "mqar"
vocabulary = 32
length = 16
pairs = 2
train_rows = 64
test_rows = 32
[model]
mixer = "attention"
width = 8
depth = 1
[train]
steps = 24
batch = 16
evaluations = 6
[sweep]
train.lr = [1e-3, 1e-2]
seed = [1, 2]
""")


def make(folder: Path, most: int = 4) -> Plan:
    return draft_sweep(folder, SWEEP, draft_packs(SWEEP.runs, "cpu", most_runs=most)).write()


def outcome(folder: Path) -> dict[str, object]:
    """Every number of every run."""
    results = RunSet.load(folder)
    return {
        row.run_id: (row.status, row.steps, row.stopped_early, results.curves.get(row.run_id))
        for row in results.rows
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("undisturbed")
    engine.train(folder, [SWEEP], device="cpu", keep="none")
    return outcome(folder)


@pytest.fixture(autouse=True)
def saving_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(pack, "SAVE_SHARE", 1.0)


def stop_after(steps: int, code: int = 143) -> Callable[[], int]:
    asked = iter(range(10**9))
    return lambda: code if next(asked) >= steps else 0


@pytest.mark.parametrize("most", [4, 3, 1])
def test_packs_of_any_size_give_the_rows_of_one_process(
    tmp_path: Path, undisturbed: dict[str, object], most: int
):
    plan = make(tmp_path / "out", most)
    assert len(plan.packs) == -(-4 // most)
    for index in range(len(plan.packs)):
        assert work_on_pack(plan, index, CPU).why == "complete"
    assert collect_once(plan).is_complete
    assert outcome(plan.folder) == undisturbed
    assert not list(plan.folder.glob("checkpoints/*/*"))


def test_a_pack_that_is_stopped_again_and_again(tmp_path: Path, undisturbed: dict[str, object]):
    plan = make(tmp_path / "out")
    for _ in range(5):
        with pytest.raises(Stopped, match="its next attempt goes on from the checkpoint"):
            work_on_pack(plan, 0, CPU, stop=stop_after(4))
    work_on_pack(plan, 0, CPU)
    collect_once(plan)
    assert outcome(plan.folder) == undisturbed
    reached = [read_spool(plan.folder, 0, each).furthest for each in attempts(plan.folder, 0)]
    assert reached == sorted(set(reached))  # each went on


def test_rows_say_where_they_come_from(tmp_path: Path):
    plan = make(tmp_path / "out")
    work_on_pack(plan, 0, CPU)
    collect_once(plan)
    row = RunSet.load(plan.folder).rows[0]
    assert row.versions["code"] == plan.code
    assert row.versions["host"]


def test_a_complete_pack_is_left_alone(tmp_path: Path):
    plan = make(tmp_path / "out")
    work_on_pack(plan, 0, CPU)
    assert work_on_pack(plan, 0, CPU).trained == 0
    assert len(attempts(plan.folder, 0)) == 1


def test_a_checkpoint_without_its_points_is_not_taken_up(
    tmp_path: Path, undisturbed: dict[str, object]
):
    """A spool that another machine cannot see yet: the pack begins again, and nothing has a gap."""
    plan = make(tmp_path / "out")
    with pytest.raises(Stopped):
        work_on_pack(plan, 0, CPU, stop=stop_after(18))
    for path in spool_folder(plan.folder, 0).glob("*.spool"):
        path.write_bytes(path.read_bytes()[:400])
    work_on_pack(plan, 0, CPU)
    collect_once(plan)
    assert outcome(plan.folder) == undisturbed


def test_a_damaged_checkpoint_costs_itself(tmp_path: Path, undisturbed: dict[str, object]):
    plan = make(tmp_path / "out")
    with pytest.raises(Stopped):
        work_on_pack(plan, 0, CPU, stop=stop_after(18))
    for path in checkpoint_folder(plan.folder, 0).rglob("*.ckpt"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    work_on_pack(plan, 0, CPU)
    found = collect_once(plan)
    assert outcome(plan.folder) == undisturbed
    assert found.is_complete


def test_an_attempt_that_was_replaced_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attempts_module, "LOOK_EVERY_S", 0.0)
    plan = make(tmp_path / "out")

    def replace_it() -> int:
        if not (spool_folder(plan.folder, 0) / "7-other-x.spool").exists():
            Spool(plan.folder, 0, Attempt("7-other-x"), {}).end("stopped")
        return 0

    assert work_on_pack(plan, 0, CPU, stop=replace_it).why == "superseded"


def test_a_zombie_that_ends_late_changes_nothing(tmp_path: Path, undisturbed: dict[str, object]):
    """Two attempts train the same pack from the same checkpoint; both end."""
    plan = make(tmp_path / "out")
    with pytest.raises(Stopped):
        work_on_pack(plan, 0, CPU, stop=stop_after(6))
    shutil.copytree(plan.folder, tmp_path / "zombie")
    work_on_pack(plan, 0, CPU)
    work_on_pack(read_plan(tmp_path / "zombie"), 0, CPU, job="zombie")
    for path in spool_folder(tmp_path / "zombie", 0).glob("*zombie*"):
        shutil.copy(path, spool_folder(plan.folder, 0))
    found = collect_once(plan)
    assert len(attempts(plan.folder, 0)) == 3
    assert not found.conflicts
    assert outcome(plan.folder) == undisturbed


def test_other_code_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    plan = make(tmp_path / "out")
    monkeypatch.setattr(attempts_module, "code_digest", lambda: "other")
    with pytest.raises(SpecError, match="planned with other code"):
        work_on_pack(plan, 0, CPU)
    assert not (plan.folder / "spool").exists()


def test_a_run_that_kills_its_process_is_given_up(tmp_path: Path):
    """Packs are halved as long as nothing goes further; a run alone fails after five deaths."""
    plan = make(tmp_path / "out")
    runs = {run.run_id: RunSpec.from_json(run.spec) for run in plan.read_pack(0)}
    assert read_history(plan.folder, 0, runs).most_together(4) is None
    for number in range(1, 6):
        spool = Spool(plan.folder, 0, Attempt(f"{number}-x-y"), {})
        spool.trying(list(runs)[:1])
        spool.abandon()
    history = read_history(plan.folder, 0, runs)
    assert history.most_together(4) == 1
    assert history.is_hopeless
    done = work_on_pack(plan, 0, CPU)
    assert len(done.failures) == 1
    assert "5 attempts in a row ended without progress" in done.failures[0]
    found = collect_once(plan)
    assert (found.packs[0].done, found.packs[0].failed) == (3, 1)
    assert work_on_pack(plan, 0, CPU, retry_failed=True).trained == 1
