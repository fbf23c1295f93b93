"""How many processes suit a sweep, what is refused, what the parent tells, and when it gives up.
The processes themselves are fault tests.
"""

from pathlib import Path

import pytest
import torch

from recollect.errors import ResourceError, SpecError
from recollect.running import processes
from recollect.running.planning import memory
from recollect.running.planning.threads import choose_threads
from recollect.running.processes import WorkerProcesses, count_processes, suitable_processes
from recollect.store import MAX_LOST

CPU = torch.device("cpu")


@pytest.fixture
def runs(make_run):
    return [make_run({"seed": seed, "train.steps": 10_000}) for seed in range(20)]


@pytest.fixture(autouse=True)
def _worth_it(monkeypatch):
    monkeypatch.setattr(processes, "WORTHWHILE_S", 0)


def test_small_steps_have_a_process_for_each_core(runs):
    assert [suitable_processes(runs, CPU, available) for available in (1, 2, 4)] == [1, 2, 4]
    assert suitable_processes(runs[:5], CPU, 8) == 2  # one member costs as much as two


def test_where_a_run_uses_several_threads_there_are_fewer_processes(runs, make_run):
    large = make_run(
        {"task.train_rows": 512, "train.batch": 128, "model.width": 256, "train.steps": 10_000}
    )
    assert choose_threads(large, 8) == 4
    assert suitable_processes([*runs, large], CPU, 8) == 2


def test_memory_bounds_the_processes(monkeypatch, runs):
    monkeypatch.setattr(
        memory, "free_memory", lambda device: 3 * processes.PROCESS_BYTES / memory.MEMORY_SHARE
    )
    assert suitable_processes(runs, CPU, 8) == 2


def test_a_short_sweep_and_a_gpu_have_one(monkeypatch, runs):
    assert suitable_processes(runs, torch.device("cuda"), 8) == 1
    monkeypatch.setattr(processes, "WORTHWHILE_S", 5e7)
    assert suitable_processes(runs, CPU, 8) == 1
    assert suitable_processes([], CPU, 8) == 1


def test_several_processes_on_a_gpu_are_refused():
    with pytest.raises(
        SpecError, match="--workers 3: one process fills a GPU; leave it out, or say --device cpu"
    ):
        count_processes(3, None, torch.device("cuda"))
    assert count_processes(3, None, CPU) == 3


class KilledProcess:
    """A process that was killed as soon as it started."""

    exitcode = -9

    def is_alive(self):
        return False

    def join(self):
        pass

    terminate = join


class SilentPipe:
    def poll(self):
        return False


class UntouchedStore:
    def counts(self):
        return {"todo": 3}

    def rows(self):
        return []

    def meta(self, key):
        return None

    path = Path("out/recollect.db")


def test_processes_that_are_killed_at_once_are_not_replaced_for_ever(monkeypatch, tmp_path):
    parent = WorkerProcesses(tmp_path, CPU, 2, (), lambda: 0)
    started = []

    def start():
        started.append(1)
        parent._errors[KilledProcess()] = SilentPipe()

    monkeypatch.setattr(parent, "_start", start)
    monkeypatch.setattr(processes, "WATCH_EVERY_S", 0.001)
    with pytest.raises(
        ResourceError, match=f"{MAX_LOST} processes in a row were killed before any run ended"
    ):
        parent.work(UntouchedStore())
    assert len(started) == 2 + MAX_LOST


def test_an_error_of_a_process_is_raised_by_the_parent(monkeypatch, tmp_path):
    parent = WorkerProcesses(tmp_path, CPU, 1, (), lambda: 0)

    class PipeWithError:
        def poll(self):
            return True

        def recv(self):
            return ResourceError("the disk is full")

    monkeypatch.setattr(
        parent, "_start", lambda: parent._errors.update({KilledProcess(): PipeWithError()})
    )
    monkeypatch.setattr(processes, "WATCH_EVERY_S", 0.001)
    with pytest.raises(ResourceError, match="the disk is full"):
        parent.work(UntouchedStore())
