"""How many processes suit a sweep, what is refused, and when the parent gives up; the processes
themselves are fault tests.
"""

import pytest
import torch

from recollect.errors import ResourceError, SpecError
from recollect.running import processes as workers
from recollect.running.planning import planner
from recollect.running.processes import Workers, sensible
from recollect.store import MAX_LOST

CPU = torch.device("cpu")


@pytest.fixture
def runs(make_run):
    return [make_run({"seed": seed, "train.steps": 10_000}) for seed in range(20)]


@pytest.fixture(autouse=True)
def _worth_it(monkeypatch):
    monkeypatch.setattr(workers, "WORTHWHILE", 0)


def test_small_steps_have_a_process_for_each_core(runs):
    assert [sensible(runs, CPU, threads) for threads in (1, 2, 4)] == [1, 2, 4]
    assert sensible(runs[:5], CPU, 8) == 2  # a lonely member costs as much as two


def test_where_a_run_uses_several_threads_there_are_fewer_processes(runs, make_run):
    large = make_run(
        {"task.train_rows": 512, "train.batch": 128, "model.width": 256, "train.steps": 10_000}
    )
    assert planner.threads(large, 8) == 4
    assert sensible([*runs, large], CPU, 8) == 2


def test_memory_bounds_the_processes(monkeypatch, runs):
    monkeypatch.setattr(
        planner, "free_memory", lambda device: 3 * workers.PROCESS_BYTES / planner.MEMORY_SHARE
    )
    assert sensible(runs, CPU, 8) == 2


def test_a_short_sweep_and_a_gpu_have_one(monkeypatch, runs):
    assert sensible(runs, torch.device("cuda"), 8) == 1
    monkeypatch.setattr(workers, "WORTHWHILE", 1e18)
    assert sensible(runs, CPU, 8) == 1
    assert sensible([], CPU, 8) == 1


def test_several_processes_on_a_gpu_are_refused():
    with pytest.raises(
        SpecError, match="--workers 3: one process fills a GPU; leave it out, or say --device cpu"
    ):
        workers.count(3, None, torch.device("cuda"))
    assert workers.count(3, None, CPU) == 3


class Corpse:
    """A process that was killed as soon as it started."""

    exitcode = -9

    def is_alive(self):
        return False

    def join(self):
        pass

    terminate = join


class Mute:
    def poll(self):
        return False


class Untouched:
    def counts(self):
        return {"todo": 3}


def test_processes_that_die_at_once_are_not_replaced_for_ever(monkeypatch, tmp_path):
    crew = Workers(tmp_path, CPU, 2, (), lambda: 0)
    started = []

    def start():
        started.append(1)
        crew._living[Corpse()] = Mute()

    monkeypatch.setattr(crew, "_start", start)
    monkeypatch.setattr(workers, "LOOK_EVERY_S", 0.001)
    with pytest.raises(
        ResourceError, match=f"{MAX_LOST} processes in a row were killed before any run ended"
    ):
        crew.work(Untouched(), lambda: None)
    assert len(started) == 2 + MAX_LOST


def test_what_a_process_could_not_do_is_said_by_the_parent(monkeypatch, tmp_path):
    crew = Workers(tmp_path, CPU, 1, (), lambda: 0)

    class Full:
        def poll(self):
            return True

        def recv(self):
            return ResourceError("the disk is full")

    monkeypatch.setattr(crew, "_start", lambda: crew._living.update({Corpse(): Full()}))
    monkeypatch.setattr(workers, "LOOK_EVERY_S", 0.001)
    with pytest.raises(ResourceError, match="the disk is full"):
        crew.work(Untouched(), lambda: None)
