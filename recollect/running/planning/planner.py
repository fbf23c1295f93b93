"""How many runs train together, and what that costs.

On a CPU a population is not always faster than a loop (a large one falls out of the caches), so its
size is measured, within the memory that is counted without computing. On a GPU the larger one is
the faster one, so memory decides; what is kept there depends on the kernels, so the count is
replaced by what two small populations allocate on this very device.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from recollect.errors import SpecError
from recollect.model.layers import initialise
from recollect.model.model import Model
from recollect.spec.run import RunSpec
from recollect.tasks.base import Task
from recollect.training.graph import WARM_CALLS
from recollect.training.heap import give_back_once
from recollect.training.population import ROW_MULTIPLE, Population

MEMORY_SHARE = 0.7  # of what is free: the rest is for temporaries, the data and other programs
MEASURED_SHARE = (
    0.85  # of what is free where memory was measured: temporaries and data are in it already
)
TRIED = (2, 4)  # members of the two populations whose memory is measured
# a larger pack must be this much faster per run, else the smaller one (less memory, finer progress)
# wins
WORTHWHILE = 1.05
PROBE_SHARE = 0.02  # of the estimated work may go into measuring
# of the places must be free before others join: a pack of a few would not be worth its start
JOIN_SHARE = 0.25
# Tokens x layers x width^2 of a step with more than one thread; in the smallest one measured, 1.6
# million, a second pays (docs/decisions/threads-on-a-cpu.md).
LARGE_STEP = 1_000_000
FLOAT = 4


@dataclass(frozen=True)
class Cost:
    """What one member of a population needs."""

    parameters: int
    memory_bytes: int
    operations: int  # multiply-adds of a training step


@dataclass(frozen=True)
class Need:
    """The memory of a population of n members, `fixed + n * member` bytes, and the share of what is
    free that it may take.
    """

    member: int
    fixed: int = 0
    share: float = MEMORY_SHARE

    def fitting(self, free: int) -> int:
        """How many members fit; at least one is tried."""
        return max(1, int((self.share * free - self.fixed) / self.member))


def cost(run: RunSpec) -> Cost:
    """Counted on torch's meta device, which knows shapes and computes nothing; too high where a
    device fuses what it keeps.

    Code from outside may look at values, which are not there, or launch kernels of its own: it is
    counted on the CPU, else on the GPU, and refused if it fails there too.
    """
    try:
        return _count(run, torch.device("meta"))
    except Exception as error:
        if not any(kind.foreign for kind in run.model.mixer.kinds()):
            raise
        last = error
    for name in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        try:
            return _count(run, torch.device(name))
        except Exception as error:
            last = error
    reason = str(last).partition("\n")[0]
    raise SpecError(
        f"mixer {run.model.mixer.name} fails: {type(last).__name__}: {reason}; mend the plugin"
    ) from last


def _count(run: RunSpec, device: torch.device) -> Cost:
    task, train = run.task, run.train
    with device:
        model = Model(run.model, 1, task.label_vocabulary, task.longest)
        tokens = torch.zeros(train.batch, task.train_length, dtype=torch.int64)
        where = torch.zeros(train.batch, task.labels_per_row, dtype=torch.int64)
    if device.type != "meta":
        initialise(model, [run.seed])
    kept: dict[int, torch.UntypedStorage] = {}  # by address, and held so that no other one gets it

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage
        return tensor

    with saved_tensors_hooks(count, lambda tensor: tensor):
        logits = model(tokens, where)
    parameters = model.parameters_per_member()
    # Weights, gradients, two moments and the update; the loss keeps the logits, their log-softmax
    # and its gradient.
    memory = (
        sum(storage.nbytes() for storage in kept.values())
        + 5 * FLOAT * parameters
        + 3 * FLOAT * logits.numel()
    )
    return Cost(parameters, memory, _operations(run, model))


def operations(run: RunSpec) -> int | None:
    """Multiply-adds of a training step, from shapes alone and at once; None for code from outside,
    which may not tell.
    """
    try:
        with torch.device("meta"):
            return _operations(
                run, Model(run.model, 1, run.task.label_vocabulary, run.task.longest)
            )
    except Exception:
        return None


def _operations(run: RunSpec, model: Model) -> int:
    width, tokens = run.model.width, run.train.batch * run.task.train_length
    labels = run.train.batch * run.task.labels_per_row
    # Every matrix of the channel half is used once per token.
    halves = [block.channel for block in model.layers if block.channel is not None]
    channel = sum(
        matrix[0].numel() for half in halves for matrix in half.parameters() if matrix.dim() == 3
    )
    layers = channel + sum(block.mixer.operations_per_token() for block in model.layers)
    return 3 * (
        tokens * layers + labels * width * run.task.label_vocabulary
    )  # the backward pass costs two forward passes


def use_threads(run: RunSpec, available: int) -> int:
    """Set the number of CPU threads for a run's shape."""
    torch.set_num_threads(threads(run, available))
    return torch.get_num_threads()


def threads(run: RunSpec, available: int) -> int:
    """The number of CPU threads for a run's shape: a power of two whose shares of a batch are whole
    blocks.

    Otherwise rows have to be padded (see Population._aligned), and with an odd number of threads
    nothing would help. A step smaller than any measured has one thread. The rule depends on the
    specification alone, not on a measurement: bits depend on the number of threads, and a resumed
    run must have as many as before.
    """
    used = 1
    work = run.train.batch * run.task.train_length * run.model.depth * run.model.width**2
    while (
        work >= LARGE_STEP
        and 2 * used <= available
        and run.train.batch % (ROW_MULTIPLE * 2 * used) == 0
    ):
        used *= 2
    return used


def free_memory(device: torch.device) -> int:
    """Bytes that could be used now."""
    # What an earlier population left is ours to use, but the system counts it as taken.
    if device.type == "cuda":
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(device)[0]
    give_back_once()
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def seconds_per_step(
    members: Sequence[RunSpec], task: Task, device: torch.device, repeats: int = 2
) -> float:
    """One optimiser step of these members together, measured after those that warm up and record."""
    population = Population(members, task, device)
    start, warm = 0.0, warm_steps(device)
    for repeat in range(warm + repeats):
        if repeat == warm:
            wait(device)
            start = time.perf_counter()
        population.step = (
            0  # the first step again: its data and its rate are there in the shortest run
        )
        population.train_step(task.batch("train", 0))
    wait(device)
    return (time.perf_counter() - start) / repeats


def allocated(members: Sequence[RunSpec], task: Task, device: torch.device) -> int:
    """The most bytes these members have on a GPU at once while they train and are looked at."""
    torch.cuda.empty_cache()
    for split in ("train", *task.test_splits):
        task.batch(split, 0)  # what the data need is not theirs
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    population = Population(members, task, device)
    population.train_step(task.batch("train", 0))
    population.evaluate()
    return torch.cuda.max_memory_allocated(device) - before


Measure = Callable[[Sequence[RunSpec], Task, torch.device], int]


def need(
    runs: Sequence[RunSpec], task: Task, device: torch.device, measure: Measure = allocated
) -> Need:
    """What a population of runs of this shape needs: counted on a CPU; on a GPU a line through two
    measured points.
    """
    counted = Need(cost(runs[0]).memory_bytes)
    small, large = TRIED
    if device.type == "cpu" or counted.fitting(free_memory(device)) < large:
        return counted  # nothing fuses, or too large to try out
    # What a member needs does not depend on its seed or rate: where there are too few runs, some
    # stand for two. The first population is for what libraries allocate once.
    _, few, more = (
        measure([runs[i % len(runs)] for i in range(size)], task, device)
        for size in (small, small, large)
    )
    member = max((more - few) // (large - small), 4 * FLOAT * cost(runs[0]).parameters)
    return Need(member, max(0, few - small * member), MEASURED_SHARE)


def pack_size(
    runs: Sequence[RunSpec],
    task: Task,
    device: torch.device,
    measure: Measure = allocated,
    beside: int = 1,
) -> int:
    """The number of these same-shaped runs that should train together, where `beside` processes
    share the memory.
    """
    fits = need(runs, task, device, measure).fitting(free_memory(device) // beside)
    if device.type != "cpu":
        return min(fits, len(runs))
    best, fastest, spent = min(2, len(runs)), math.inf, 0.0
    for size in _doubling(min(fits, len(runs))):
        start = time.perf_counter()
        per_run = seconds_per_step(runs[:size], task, device) / size
        spent += time.perf_counter() - start
        if fastest / per_run < WORTHWHILE:
            break
        best, fastest = size, per_run
        if spent > PROBE_SHARE * per_run * len(runs) * runs[0].train.steps:
            break
    return best


def evenly(runs: int, largest: int) -> int:
    """The size of the next of as few packs as needed, all about equally large: a small last one
    would not fill the device.
    """
    return -(-runs // max(1, -(-runs // largest)))


def joining(waiting: int, taken: int, largest: int, places: int) -> int:
    """How many of the runs that wait should begin while `taken` train and `largest` may.

    At first as many as make all packs about equally large. Later as many as have ended of the
    `places` that were once taken, or all that wait if they fit; but not before JOIN_SHARE of the
    places is free.
    """
    room = min(waiting, min(largest, max(evenly(waiting + taken, largest), places)) - taken)
    return 0 if taken and room < min(waiting, JOIN_SHARE * largest) else room


def _doubling(limit: int) -> Iterator[int]:
    size = 2
    while size < limit:
        yield size
        size *= 2
    yield max(1, limit)


def warm_steps(device: torch.device) -> int:
    """Steps before a step takes as long as all later ones: on a GPU the one that records comes
    last.
    """
    return WARM_CALLS + 1 if device.type == "cuda" else 1


def wait(device: torch.device) -> None:
    """Until the device has done all it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
