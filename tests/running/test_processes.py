"""How many processes suit a sweep, what is refused, what the parent tells, and when it gives up.
The processes themselves are fault tests.
"""

import re
from collections import Counter
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from recollect.errors import DeviceLostError, RecollectError, ResourceError, SpecError
from recollect.mixers.registry import MIXERS
from recollect.running import engine
from recollect.running.events import DeviceProgress, Remark, RunEnded
from recollect.running.planning import memory
from recollect.running.planning.cost import cost
from recollect.running.planning.threads import choose_threads
from recollect.running.processes import count, parent, watching
from recollect.running.processes.child import Said
from recollect.running.processes.count import (
    ProcessCount,
    count_processes,
    suitable_processes,
    usable_cores,
)
from recollect.running.processes.devices import DeviceShare
from recollect.running.processes.parent import WorkerProcesses, _Started
from recollect.running.processes.watching import DeviceSpeeds, StoreWatcher
from recollect.spec.sweep import Sweep
from recollect.store import MAX_LOST, Result, Store

CPU = torch.device("cpu")


@pytest.fixture
def runs(make_run):
    return [make_run({"seed": seed, "train.steps": 10_000}) for seed in range(20)]


@pytest.fixture(autouse=True)
def _worth_it(monkeypatch):
    monkeypatch.setattr(count, "WORTHWHILE_S", 0)


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
        memory, "free_memory", lambda device: 3 * count.PROCESS_BYTES / memory.MEMORY_SHARE
    )
    assert suitable_processes(runs, CPU, 8) == 2


def test_a_short_sweep_and_a_gpu_have_one(monkeypatch, runs):
    assert suitable_processes(runs, torch.device("cuda"), 8) == 1
    monkeypatch.setattr(count, "WORTHWHILE_S", 5e7)
    assert suitable_processes(runs, CPU, 8) == 1
    assert suitable_processes([], CPU, 8) == 1


def test_several_processes_on_a_gpu_are_refused():
    with pytest.raises(
        SpecError, match="--workers 3: one process fills a GPU; leave it out, or say --device cpu"
    ):
        count_processes(3, None, torch.device("cuda"))


def test_a_number_asked_for_is_granted_within_cores_and_memory(monkeypatch, runs):
    class Planned:
        def todo(self):
            return [SimpleNamespace(spec=run.canonical_json()) for run in runs]

    monkeypatch.setattr(count, "usable_cores", lambda: 4)
    monkeypatch.setattr(
        memory, "free_memory", lambda device: 64 * count.PROCESS_BYTES / memory.MEMORY_SHARE
    )
    assert count_processes(1, Planned(), CPU) == ProcessCount(1)
    assert count_processes(4, Planned(), CPU) == ProcessCount(4)
    found = count_processes(500, Planned(), CPU)
    assert found.processes == 4
    assert re.fullmatch(
        r"--workers 500: this machine carries 4 \(4 cores, memory for \d+\); going on with 4",
        found.reason,
    )
    monkeypatch.setattr(
        memory, "free_memory", lambda device: 3.5 * count.PROCESS_BYTES / memory.MEMORY_SHARE
    )
    assert count_processes(4, Planned(), CPU).processes == 3
    monkeypatch.setattr(count, "usable_cores", lambda: 1)
    assert count_processes(2, Planned(), CPU) == ProcessCount(2)
    assert usable_cores() >= 1


@pytest.mark.parametrize("mixer", MIXERS)
def test_the_bound_that_saves_counting_is_one(make_run, mixer):
    try:
        run = make_run({"model.mixer.name": mixer, "model.width": 64})
    except SpecError:
        pytest.skip("needs options")
    if any(kind.foreign for kind in run.model.mixer.kinds()):
        pytest.skip("code from outside")
    assert cost(run).memory_bytes <= count._most_bytes(run)


def test_a_sweep_of_many_shapes_is_not_counted_shape_by_shape(monkeypatch, make_run):
    counted = []
    monkeypatch.setattr(
        count, "cost", lambda run: counted.append(run) or SimpleNamespace(memory_bytes=1)
    )
    widths = range(8, 8 * 41, 8)
    many = [make_run({"model.width": width, "train.steps": 10_000}) for width in widths]
    assert suitable_processes(many, CPU, 2) == 2
    assert len(counted) == count.COUNTED_SHAPES
    assert max(run.model.width for run in many) in {run.model.width for run in counted}


class EndedProcess:
    """A process that has ended by the time its parent looks."""

    def __init__(self, exitcode: int):
        self.exitcode = exitcode

    def is_alive(self):
        return False

    def join(self):
        pass

    terminate = join


def full_pipe(*words):
    """What a process said before it ended."""
    connection, its_end = Pipe()
    for word in words:
        its_end.send(word)
    its_end.close()
    return connection


class UntouchedStore:
    def rows(self, numbers=None):
        return []

    def unfinished(self):
        return {number: (f"run {number}", "todo") for number in (1, 2, 3)}

    def todo(self):
        return []

    def meta(self, key):
        return None

    path = Path("out/recollect.db")


@pytest.fixture
def work(monkeypatch, tmp_path):
    """Processes that all end like this one; how many were started."""
    monkeypatch.setattr(parent, "WATCH_EVERY_S", 0.001)
    started: list[int] = []

    def run(exitcode: int, *words) -> list[int]:
        shares = [DeviceShare("cpu", 2)] * 2
        processes = WorkerProcesses(tmp_path, shares, (), lambda: 0)

        def start(assignment):
            started.append(1)
            process = EndedProcess(exitcode)
            processes._living.append(_Started(assignment, process, full_pipe(*words)))

        monkeypatch.setattr(processes, "_start", start)
        processes.work(UntouchedStore())
        return started

    run.started = started
    return run


def test_processes_that_say_they_are_done_are_done(work):
    assert len(work(0, Said.STARTED, Said.ENDED)) == 2


@pytest.mark.parametrize(
    ("exitcode", "words", "how"),
    [
        (-9, (), "by SIGKILL"),
        (-15, (Said.STARTED,), "by SIGTERM"),
        (0, (Said.STARTED, Said.STOPPED), "with exit code 0"),  # somebody terminated it
        (7, (Said.STARTED,), "with exit code 7"),
        (-99, (Said.STARTED,), "by signal 99"),
    ],
)
def test_processes_that_die_are_replaced_but_not_for_ever(work, exitcode, words, how):
    with pytest.raises(
        ResourceError,
        match=f"{MAX_LOST} processes in a row were killed before any run ended, the last one {how}",
    ):
        work(exitcode, *words)
    assert len(work.started) == 2 + MAX_LOST


@pytest.mark.parametrize("exitcode", [0, 1])
def test_a_process_that_ends_before_it_trains_is_an_error_at_once(work, exitcode):
    with pytest.raises(
        RecollectError,
        match=f"a worker process ended before it trained anything, with exit code {exitcode}",
    ) as caught:
        work(exitcode)
    assert caught.value.exit_code != 0
    assert len(work.started) == 2


def test_an_error_of_a_process_is_raised_by_the_parent(work):
    with pytest.raises(ResourceError, match="the disk is full"):
        work(0, Said.STARTED, ResourceError("the disk is full"))


# ---- what the parent reads ----


def test_the_parent_reads_only_what_moves(tmp_path, runs, monkeypatch):
    read = []
    rows = Store.rows
    monkeypatch.setattr(
        Store, "rows", lambda self, numbers=None: read.append(found := rows(self, numbers)) or found
    )
    with Store.create(tmp_path / "out") as store:
        engine.plan(store, Sweep("sweep", "", tuple(runs)))
        watcher = StoreWatcher(store)
        assert [len(found) for found in read] == [20]
        ids = [run.run_id for run in runs]
        claims = store.claim(ids[:4], "me", 60)
        ended = [Result(run_id, claims[run_id], "done", 10, 1.0) for run_id in ids[:3]]
        store.finish(ended)
        told = watcher.changes()
        assert {event.run.run_id for event in told if isinstance(event, RunEnded)} == set(ids[:3])
        assert watcher.changes() == []
        store.finish([Result(ids[3], claims[ids[3]], "failed", 0, 0.0, failure="oom: large")])
        assert [event.status for event in watcher.changes() if isinstance(event, RunEnded)] == [
            "failed"
        ]
        assert watcher.ended == 4
    assert [len(found) for found in read] == [20, 4, 1, 1]


# ---- what it tells of devices ----


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])
    return now


def test_speeds_are_those_of_the_last_seconds(clock):
    speeds = DeviceSpeeds()
    assert (speeds.now(), speeds.total(), speeds.seconds(10)) == ("", "", None)
    for second in range(100):
        clock[0] = float(second)
        speeds.feed(DeviceProgress("cuda:0", 100 * second, second // 50, 1))
        speeds.feed(DeviceProgress("cuda:1", max(0, 3_000 * (second - 50)), 2, 3))
    assert (speeds.speed("cuda:0"), speeds.speed("cuda:1")) == (100.0, 3_000.0)
    assert speeds.seconds(31_000) == 10.0
    assert speeds.now() == "run-steps a second: cuda:0 100, cuda:1 3,000"
    assert speeds.total() == (
        "cuda:0: 1 run of 1 shape, 9,900 run-steps; cuda:1: 2 runs of 3 shapes, 147,000 run-steps"
    )


def test_one_device_has_nothing_to_compare(clock):
    speeds = DeviceSpeeds()
    speeds.feed(DeviceProgress("cpu", 5, 1, 1))
    assert (speeds.now(), speeds.total()) == ("", "")


def test_a_lost_device_costs_only_itself_where_there_are_others(monkeypatch, tmp_path):
    """Its process is replaced, then it is given up; the other one ends."""
    monkeypatch.setattr(parent, "WATCH_EVERY_S", 0.001)
    heard = []
    shares = [DeviceShare("cuda:0"), DeviceShare("cuda:1")]
    processes = WorkerProcesses(tmp_path, shares, (), lambda: 0, heard.append, {})
    started = []

    def start(assignment):
        device = assignment.share.device
        started.append(device)
        lost = DeviceLostError("the GPU is lost: CUDA error: unspecified launch failure\nmore")
        words = [Said.STARTED, Said.ENDED if device == "cuda:0" else lost]
        processes._living.append(_Started(assignment, EndedProcess(0), full_pipe(*words)))

    monkeypatch.setattr(processes, "_start", start)
    processes.work(UntouchedStore())
    assert Counter(started) == {"cuda:0": 1, "cuda:1": 1 + MAX_LOST}
    how = "since the GPU is lost: CUDA error: unspecified launch failure"
    assert [event.text for event in heard if isinstance(event, Remark)] == [
        *[f"cuda:1: a process ended {how}; another one takes its place"] * MAX_LOST,
        f"cuda:1: {MAX_LOST} processes in a row were killed before any run ended, the last one "
        f"{how}; it is given up, others take its runs",
    ]


def test_what_a_process_remarks_is_passed_on_and_no_error(monkeypatch, tmp_path):
    monkeypatch.setattr(parent, "WATCH_EVERY_S", 0.001)
    heard = []
    processes = WorkerProcesses(tmp_path, [DeviceShare("cpu")], (), lambda: 0, heard.append)
    words = [Said.STARTED, Remark("out of memory with 4 runs: going on with 2")]

    def start(assignment):
        pipe = full_pipe(*words, Said.ENDED)
        processes._living.append(_Started(assignment, EndedProcess(0), pipe))

    monkeypatch.setattr(processes, "_start", start)
    processes.work(UntouchedStore())
    assert words[1] in heard


def test_the_largest_device_is_the_last_resort(tmp_path):
    shares = [DeviceShare("cpu:0", 1, 5), DeviceShare("cpu:1", 2, 12), DeviceShare("cpu:2", 2, 8)]
    spread = WorkerProcesses(tmp_path, shares, (), lambda: 0, homes={})
    assert [each.leaves_large for each in spread._assignments] == [True, False, True]
    together = WorkerProcesses(tmp_path, shares, (), lambda: 0)
    assert not any(each.leaves_large for each in together._assignments)
