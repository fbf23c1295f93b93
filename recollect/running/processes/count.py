"""How many processes train, and on what: on a CPU as many as suit what is todo, or as many as were
asked for, within what the machine carries; of several GPUs one on each.
"""

import heapq
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch

from recollect.errors import SpecError
from recollect.running.planning import memory
from recollect.running.planning.cost import cost, operations
from recollect.running.planning.speed import SpeedModel, guessed_s
from recollect.running.planning.threads import choose_threads
from recollect.running.processes.devices import DeviceShare, share_devices
from recollect.running.processes.spread import spread_runs
from recollect.spec.run import RunSpec
from recollect.spec.sweep import group_by_shape
from recollect.store import Store

PROCESS_BYTES = 400_000_000  # of a process that has loaded torch
# Of one core, by the guessed speed: a shorter sweep is not worth the start of processes, 2 s each.
WORTHWHILE_S = 20.0
COUNTED_SHAPES = 8  # whose memory is counted, which takes some 50 ms each
FEWEST = 2  # that any machine carries, whatever it says about its cores


@dataclass(frozen=True)
class ProcessPlan:
    """What each process trains on, and why there are not as many as were asked for."""

    shares: tuple[DeviceShare, ...]
    reason: str = ""
    homes: dict[str, int] | None = None  # of runs, where there are several devices


def plan_processes(
    devices: Sequence[torch.device],
    workers: int,
    store: Store,
    step_s: Mapping[str, float],
    alone: str = "",
) -> ProcessPlan:
    """`workers`: processes on a CPU, 0 being as many as suit; `step_s`: seconds of a run-step, of
    shapes for which they are known; `alone`: why there may be only one process, if so.
    """
    first = (DeviceShare(str(devices[0])),)
    if len(devices) == 1:
        if alone:
            return ProcessPlan(first)
        count = count_processes(workers, store, devices[0])
        share = DeviceShare(str(devices[0]), count.processes)
        return ProcessPlan((share,) * count.processes, count.reason)
    runs = [RunSpec.from_json(todo.spec) for todo in store.todo()]
    if not alone and not _is_worthwhile(runs, devices[0]):
        alone = "there is little to do"
    if alone:
        return ProcessPlan(first, f"{alone}: {devices[0]} alone trains")
    shares = share_devices(devices[: len(runs)])
    return ProcessPlan(
        shares, homes=spread_runs(runs, shares, _run_seconds(runs, step_s, devices[0]))
    )


def _run_seconds(
    runs: Sequence[RunSpec], step_s: Mapping[str, float], device: torch.device
) -> dict[str, float]:
    """What a run of each shape should take. Only how they compare matters."""
    speeds, shapes = SpeedModel(guessed_s(device)), {run.shape_id: run for run in runs}
    for shape in step_s.keys() & shapes.keys():
        speeds.measure(shapes[shape], step_s[shape])
    return {shape: run.train.steps * (speeds.seconds(run) or 1.0) for shape, run in shapes.items()}


@dataclass(frozen=True)
class ProcessCount:
    """How many, and why not as many as were asked for."""

    processes: int
    reason: str = ""


def require_processes(asked: int, device: torch.device) -> None:
    """Refuse more processes than a device can use."""
    if asked > 1 and device.type != "cpu":
        raise SpecError(
            f"--workers {asked}: one process fills a GPU; leave it out, or say --device cpu"
        )


def count_processes(asked: int, store: Store, device: torch.device) -> ProcessCount:
    """The number asked for, if the machine carries it; 0 is as many as suit what is todo."""
    require_processes(asked, device)
    if asked == 1:
        return ProcessCount(1)
    runs = [RunSpec.from_json(todo.spec) for todo in store.todo()]
    if not asked:
        return ProcessCount(suitable_processes(runs, device, torch.get_num_threads()))
    cores = max(FEWEST, usable_cores())
    if asked <= min(cores, _fitting(max(map(_most_bytes, runs), default=0), device)):
        return ProcessCount(asked)  # counting would take longer than it takes to see that
    fitting = fitting_processes(runs, device)
    most = min(cores, fitting)
    if asked <= most:
        return ProcessCount(asked)
    return ProcessCount(
        most,
        f"--workers {asked}: this machine carries {most} ({cores} cores, memory for {fitting}); "
        f"going on with {most}",
    )


def suitable_processes(runs: Sequence[RunSpec], device: torch.device, available: int) -> int:
    """How many processes suit these runs:
    as many as there are cores for their threads and memory for their members.
    """
    if device.type != "cpu" or available < 2 or not _is_worthwhile(runs, device):
        return 1
    shapes = [group[0] for group in group_by_shape(runs)]
    cores = available // max(choose_threads(shape, available) for shape in shapes)
    return max(1, min(cores, fitting_processes(shapes, device), len(runs) // 2))


def fitting_processes(runs: Collection[RunSpec], device: torch.device) -> int:
    """For how many there is memory, each with two members of the largest shape; one at least."""
    shapes = {run.shape_id: run for run in runs}.values()
    largest = max(
        (cost(run).memory_bytes for run in heapq.nlargest(COUNTED_SHAPES, shapes, key=_size)),
        default=0,
    )
    return _fitting(largest, device)


def _fitting(member_bytes: int, device: torch.device) -> int:
    free = memory.MEMORY_SHARE * memory.free_memory(device)
    return max(1, int(free / (PROCESS_BYTES + 2 * member_bytes)))


def usable_cores() -> int:
    """Of this process, which may be bound to some of the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_worthwhile(runs: Sequence[RunSpec], device: torch.device) -> bool:
    """Counts no further than needed to say so."""
    speeds, seconds = SpeedModel(guessed_s(device), operations), 0.0
    for group in group_by_shape(runs):
        seconds += len(group) * (speeds.seconds(group[0]) or 0.0) * group[0].train.steps
        if seconds >= WORTHWHILE_S:
            return True
    return False


def _most_bytes(run: RunSpec) -> int:
    """More than a member takes: hundreds of numbers a token, layer and channel, and the logits."""
    labels = run.train.batch * run.task.labels_per_row
    return 2_000 * _size(run) + 32 * run.task.label_vocabulary * (labels + run.model.width)


def _size(run: RunSpec) -> int:
    """What the memory of a member grows with."""
    tokens = run.train.batch * run.task.train_length
    return run.model.depth * run.model.width * (tokens + run.model.width)
