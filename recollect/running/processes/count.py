"""Chooses the number of processes and their devices. With several GPUs each has one process. A CPU
has as many as suit the todo runs, or as many as requested, within the limits of the machine.
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

PROCESS_BYTES = 400_000_000  # memory of a process that has loaded torch
# Seconds on one core, at the guessed speed. Starting processes takes 2 s each, which a shorter
# sweep does not repay.
WORTHWHILE_S = 20.0
COUNTED_SHAPES = 8  # number of shapes whose memory is counted; each takes about 50 ms
FEWEST = 2  # processes that are allowed on any machine, whatever number of cores it reports


@dataclass(frozen=True)
class ProcessPlan:
    """The device share of each process, and the reason if there are fewer than requested."""

    shares: tuple[DeviceShare, ...]
    reason: str = ""
    homes: dict[str, int] | None = None  # process number by run, if there are several devices


def plan_processes(
    devices: Sequence[torch.device],
    workers: int,
    store: Store,
    step_s: Mapping[str, float],
    alone: str = "",
) -> ProcessPlan:
    """Plan the processes that train on `devices`.

    `workers`: processes on a CPU, 0 for a suitable number. `step_s`: seconds of a run-step by
    shape, where known. `alone`: the reason if only one process is possible, else empty.
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
    """Estimated seconds of a run, by shape. Only their ratios matter."""
    speeds, shapes = SpeedModel(guessed_s(device)), {run.shape_id: run for run in runs}
    for shape in step_s.keys() & shapes.keys():
        speeds.measure(shapes[shape], step_s[shape])
    return {shape: run.train.steps * (speeds.seconds(run) or 1.0) for shape, run in shapes.items()}


@dataclass(frozen=True)
class ProcessCount:
    """The number of processes, and the reason if it is lower than requested."""

    processes: int
    reason: str = ""


def require_processes(asked: int, device: torch.device) -> None:
    """Refuse more processes than a device can use."""
    if asked > 1 and device.type != "cpu":
        raise SpecError(
            f"--workers {asked}: one process fills a GPU; leave it out, or say --device cpu"
        )


def count_processes(asked: int, store: Store, device: torch.device) -> ProcessCount:
    """The number requested, limited by the machine; for 0 the number that suits the todo runs."""
    require_processes(asked, device)
    if asked == 1:
        return ProcessCount(1)
    runs = [RunSpec.from_json(todo.spec) for todo in store.todo()]
    if not asked:
        return ProcessCount(suitable_processes(runs, device, torch.get_num_threads()))
    cores = max(FEWEST, usable_cores())
    if asked <= min(cores, _fitting(max(map(_most_bytes, runs), default=0), device)):
        return ProcessCount(asked)  # a cheap upper bound of the memory suffices here
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
    """How many processes suit these runs, given the cores for their threads and the memory for
    their members.
    """
    if device.type != "cpu" or available < 2 or not _is_worthwhile(runs, device):
        return 1
    shapes = [group[0] for group in group_by_shape(runs)]
    cores = available // max(choose_threads(shape, available) for shape in shapes)
    return max(1, min(cores, fitting_processes(shapes, device), len(runs) // 2))


def fitting_processes(runs: Collection[RunSpec], device: torch.device) -> int:
    """How many processes fit into memory with two members of the largest shape each; at least 1."""
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
    """The number of cores that this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_worthwhile(runs: Sequence[RunSpec], device: torch.device) -> bool:
    """Whether the runs take at least WORTHWHILE_S; stops counting as soon as they do."""
    speeds, seconds = SpeedModel(guessed_s(device), operations), 0.0
    for group in group_by_shape(runs):
        seconds += len(group) * (speeds.seconds(group[0]) or 0.0) * group[0].train.steps
        if seconds >= WORTHWHILE_S:
            return True
    return False


def _most_bytes(run: RunSpec) -> int:
    """An upper bound of a member's memory: 500 float32 per token, layer and channel, and logits."""
    labels = run.train.batch * run.task.labels_per_row
    return 2_000 * _size(run) + 32 * run.task.label_vocabulary * (labels + run.model.width)


def _size(run: RunSpec) -> int:
    """A number to which the memory of a member is roughly proportional."""
    tokens = run.train.batch * run.task.train_length
    return run.model.depth * run.model.width * (tokens + run.model.width)
