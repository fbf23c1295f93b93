"""A sweep through Ray with nodes of its own, disturbed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_runs import PACKS, Outcome, compare, recollect, trains
from figures import Figures

from recollect.running.cluster.draft import draft_packs, draft_sweep
from recollect.running.cluster.plan import Plan
from recollect.spec.sweep import read_sweep

ray = pytest.importorskip("ray")
OPTIONS = ("--ray", "--device", "cpu", "--cpus", "1", "--runs-per-pack", "6")


class Nodes:
    """A head and two nodes of two CPUs each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        small = {"object_store_memory": 80_000_000}
        self.cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "resources": {"head": 1}, **small}
        )
        self.nodes = [self.cluster.add_node(num_cpus=2, **small) for _ in range(2)]

    @property
    def address(self) -> str:
        return str(self.cluster.address)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    running = Nodes()
    yield running
    running.cluster.shutdown()


def make(out: Path, sweep: Path) -> Plan:
    read = read_sweep(sweep)
    return draft_sweep(out, read, draft_packs(read.runs, "cpu", most_runs=6)).write()


def driver(out: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "recollect", "submit", str(out), *options],
        env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def wait_until_training(plan: Plan) -> None:
    end = time.monotonic() + 900
    while not any(trains(plan.folder, index) for index in range(PACKS)):
        assert time.monotonic() < end, "no pack has begun to train"
        time.sleep(0.05)


def test_a_cluster_on_this_machine(
    sweep: Path, tmp_path: Path, undisturbed: Outcome, figures: Figures
):
    out = tmp_path / "out"
    said = recollect("submit", sweep, "--out", out, *OPTIONS)
    assert "24 runs = 24 done" in said
    found = compare(out, undisturbed, figures)
    assert {pack.attempts for pack in found.packs} == {1}


def test_a_ray_node_that_dies(
    nodes: Nodes, sweep: Path, tmp_path: Path, undisturbed: Outcome, figures: Figures
):
    plan = make(tmp_path / "out", sweep)
    running = driver(plan.folder, *OPTIONS[:-2], "--address", nodes.address)
    wait_until_training(plan)
    nodes.cluster.remove_node(nodes.nodes.pop(), allow_graceful=False)
    said = running.communicate(timeout=1800)[0]
    assert running.returncode == 0, said
    found = compare(plan.folder, undisturbed, figures)
    assert max(pack.attempts for pack in found.packs) >= 2
    figures.disturbed = 1
    nodes.nodes.append(nodes.cluster.add_node(num_cpus=2, object_store_memory=80_000_000))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_ray_driver_that_starts_again(
    nodes: Nodes,
    sweep: Path,
    tmp_path: Path,
    undisturbed: Outcome,
    figures: Figures,
    number: signal.Signals,
):
    plan = make(tmp_path / "out", sweep)
    running = driver(plan.folder, *OPTIONS[:-2], "--address", nodes.address)
    wait_until_training(plan)
    running.send_signal(number)
    said = running.communicate(timeout=600)[0]
    assert running.returncode == (130 if number == signal.SIGINT else -number), said
    again = driver(plan.folder)  # the folder remembers the rest
    said = again.communicate(timeout=1800)[0]
    assert again.returncode == 0, said
    compare(plan.folder, undisturbed, figures)
    figures.disturbed = 1


def test_a_task_that_fits_nowhere_is_refused(nodes: Nodes, sweep: Path, tmp_path: Path):
    plan = make(tmp_path / "out", sweep)
    said = recollect(
        *("submit", plan.folder, "--ray", "--address", nodes.address, "--gpus", "1"), code=2
    )
    assert "a task wants 1 GPU, the largest node has 0" in said
