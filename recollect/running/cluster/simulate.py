"""Simulates a cluster without training. Plan, spools and collector are real; durations of packs are
random, and nodes fail, preempt tasks and straggle.

Training advances a simulated clock, with events in a heap. Only the real parts, above all the
collector, are measured in real seconds.
"""

import heapq
import json
import math
import random
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recollect.rows import Evaluation
from recollect.running.cluster.collect import Collector
from recollect.running.cluster.plan import DraftPack, Plan, draft_plan
from recollect.running.cluster.spool import Attempt, Spool
from recollect.store import PlannedRun, Result

HOUR = 3600.0


@dataclass(frozen=True)
class Scenario:
    """The properties of a cluster and its sweep; rates are per device and hour."""

    runs: int = 10_000
    devices: int = 256
    runs_per_pack: int = 39
    points: int = 10  # evaluations of a run
    run_s: float = 15.0  # median share of a run in its pack's time, on a good device
    spread: float = 0.5  # standard deviation of log durations
    failures: float = 0.002  # a device dies, loses unsaved work, and returns after repair_s
    repair_s: float = 600.0
    preemptions: float = 0.05  # a task saves and goes back into the queue
    requeue_s: float = 130.0  # until a requeued task may start again
    straggling: float = 0.03  # share of the devices that are slow ...
    slowness: float = 3.0  # ... by this factor
    save_every_s: float = 60.0  # the most work that a death loses
    startup_s: float = 40.0  # of a task: imports, kernels
    seed: int = 0

    @property
    def pack_s(self) -> float:
        return self.run_s * self.runs_per_pack


@dataclass(frozen=True)
class Simulated:
    """The results of a simulation."""

    packs: int
    attempts: int
    makespan_s: float  # simulated
    ideal_s: float  # all work spread evenly over devices that never fail
    busy_s: float  # device time spent
    redone_s: float  # the part of busy_s whose work was lost and done again
    files: int  # on the shared disk, at the end
    files_per_pack: float
    shared_bytes: int
    spool_s: float  # real, writing all spools
    collect_s: float  # real: reading all spools, and publishing the database
    rows: int  # of the database: runs and points of curves
    rows_per_s: float
    rows_per_cpu_s: float  # per second of CPU time, which does not depend on other programs
    memory_bytes: int  # peak memory of this process
    lost: int
    doubled: int

    @property
    def overhead(self) -> float:
        """Relative excess of the makespan over the ideal."""
        return self.makespan_s / self.ideal_s - 1


@dataclass
class _Task:
    pack: int
    work_s: float  # on a good device
    done_s: float = 0.0  # saved
    attempts: int = 0


def simulate(scenario: Scenario, folder: Path) -> Simulated:
    """Run a scenario in an empty folder, where its files remain."""
    plan = _plan(scenario, folder)
    draws = random.Random(scenario.seed)
    tasks = [
        _Task(index, scenario.pack_s * math.exp(scenario.spread * draws.gauss(0, 1)))
        for index in range(len(plan.packs))
    ]
    schedule = _Schedule(scenario, draws, tasks)
    started = time.perf_counter()
    for attempt in schedule.run():
        _write_spool(plan, scenario, attempt)
    spool_s = time.perf_counter() - started
    return _measure(plan, scenario, schedule, spool_s)


@dataclass(frozen=True)
class _Attempted:
    """An attempt that has ended, as its spool describes it."""

    pack: int
    number: int
    progress: float  # share of the pack that was saved at its end
    why: str  # complete, stopped, or empty for a death


class _Schedule:
    """Devices and tasks in simulated time, the longest pack first, as the planner orders them."""

    def __init__(self, scenario: Scenario, draws: random.Random, tasks: list[_Task]):
        self._scenario, self._draws = scenario, draws
        self._ready = sorted(tasks, key=lambda task: -task.work_s)[::-1]
        self._work_s = sum(task.work_s for task in tasks)
        self._slow = [draws.random() < scenario.straggling for _ in range(scenario.devices)]
        self._events: list[tuple[float, int, str, int, _Task | None]] = []
        self._serial = 0
        self.makespan_s = self.busy_s = self.redone_s = 0.0
        self.attempts = 0

    @property
    def ideal_s(self) -> float:
        return self._work_s / self._scenario.devices

    def run(self) -> Iterator[_Attempted]:
        free = list(range(self._scenario.devices))
        now = 0.0
        while self._ready or self._events:
            while self._ready and free:
                yield self._start(self._ready.pop(), free.pop(), now)
            now, _, kind, device, task = heapq.heappop(self._events)
            if kind == "free":
                free.append(device)
                self.makespan_s = max(self.makespan_s, now)
            elif task is not None:
                self._ready.append(task)

    def _start(self, task: _Task, device: int, now: float) -> _Attempted:
        """Simulate one attempt from its start to its end, death or preemption."""
        scenario = self._scenario
        slowness = scenario.slowness if self._slow[device] else 1.0
        left_s = (task.work_s - task.done_s) * slowness
        whole_s = scenario.startup_s + left_s
        death_s = self._wait(scenario.failures)
        preemption_s = self._wait(scenario.preemptions)
        spent_s = min(whole_s, death_s, preemption_s)
        trained_s = max(0.0, spent_s - scenario.startup_s)
        task.attempts += 1
        self.attempts += 1
        self.busy_s += spent_s
        if spent_s == whole_s:
            task.done_s, why, back_s = task.work_s, "complete", 0.0
        else:
            died = spent_s == death_s
            kept_s = trained_s // scenario.save_every_s * scenario.save_every_s
            kept_s = kept_s if died else trained_s
            self.redone_s += trained_s - kept_s
            task.done_s += kept_s / slowness
            why, back_s = ("", scenario.repair_s) if died else ("stopped", 0.0)
            self._put(now + spent_s + scenario.requeue_s, "ready", -1, task)
        self._put(now + spent_s + back_s, "free", device, None)
        return _Attempted(task.pack, task.attempts, task.done_s / task.work_s, why)

    def _wait(self, per_hour: float) -> float:
        return self._draws.expovariate(per_hour / HOUR) if per_hour else math.inf

    def _put(self, at: float, kind: str, device: int, task: _Task | None) -> None:
        self._serial += 1
        heapq.heappush(self._events, (at, self._serial, kind, device, task))


def _plan(scenario: Scenario, folder: Path) -> Plan:
    """Write a plan of packs whose runs are not trained."""
    spec = json.dumps({"filler": "x" * 900})  # as long as a real specification

    def packs() -> Iterator[DraftPack]:
        for first in range(0, scenario.runs, scenario.runs_per_pack):
            last = min(first + scenario.runs_per_pack, scenario.runs)
            planned = (
                PlannedRun(f"{run:016x}", spec, "accuracy", 0.25) for run in range(first, last)
            )
            yield DraftPack(tuple(planned), "simulated", scenario.pack_s)

    draft = draft_plan(folder, packs(), name="simulated", source="", code="", versions={})
    return draft.write()


def _write_spool(plan: Plan, scenario: Scenario, attempted: _Attempted) -> None:
    """Write the spool of a real attempt: points for its progress, results at its end."""
    name = Attempt(f"{attempted.number}-simulated-{attempted.pack:x}")
    spool = Spool(plan.folder, attempted.pack, name, {"host": "simulated"}, is_synced=False)
    runs = [run.run_id for run in plan.read_pack(attempted.pack)]
    reached = int(attempted.progress * scenario.points)
    for point in range(min(reached, scenario.points - 1)):
        spool.points((run_id, _point(run_id, point)) for run_id in runs)
    if attempted.why == "complete":
        last = scenario.points - 1
        spool.results(
            Result(run_id, 1, "done", steps=100 * (last + 1), wall_s=1.0, last=_point(run_id, last))
            for run_id in runs
        )
    if attempted.why:
        spool.end(attempted.why)
    else:
        spool.abandon()


def _point(run_id: str, index: int) -> Evaluation:
    """An evaluation that is the same in every attempt."""
    value = (int(run_id, 16) * 31 + index) % 1000 / 1000
    return Evaluation(100 * (index + 1), 1.0 - value, 1.0 - value, value, value / 2)


def _measure(plan: Plan, scenario: Scenario, schedule: _Schedule, spool_s: float) -> Simulated:
    files = [path for path in plan.folder.rglob("*") if path.is_file()]
    shared = sum(path.stat().st_size for path in files)
    started, started_cpu = time.perf_counter(), time.process_time()
    with Collector(plan) as collector:
        found = collector.collect()
        collector.publish()
    collect_s, cpu_s = time.perf_counter() - started, time.process_time() - started_cpu
    done = sum(pack.done for pack in found.packs)
    return Simulated(
        packs=len(plan.packs),
        attempts=schedule.attempts,
        makespan_s=schedule.makespan_s,
        ideal_s=schedule.ideal_s,
        busy_s=schedule.busy_s,
        redone_s=schedule.redone_s,
        files=len(files),
        files_per_pack=len(files) / len(plan.packs),
        shared_bytes=shared,
        spool_s=spool_s,
        collect_s=collect_s,
        rows=done * (1 + scenario.points),
        rows_per_s=done * (1 + scenario.points) / collect_s,
        rows_per_cpu_s=done * (1 + scenario.points) / cpu_s,
        memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        lost=scenario.runs - done,
        doubled=len(found.conflicts),
    )
