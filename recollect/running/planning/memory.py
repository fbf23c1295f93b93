"""Decides how many runs train together.

On a CPU a population is not always faster than a loop (a large one does not fit into the caches).
So its size is measured, up to the memory limit, which is counted without computing. On a GPU larger
populations are faster, so memory decides. How much memory is kept there depends on the kernels, so
the count is replaced by the memory that two small populations allocate on the same device.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from recollect.running.planning import speed
from recollect.running.planning.cost import FLOAT, cost
from recollect.spec.run import RunSpec
from recollect.tasks.base import Task
from recollect.training.allocator import trim_freed_memory
from recollect.training.population import Population

# Share of free memory that may be used, if the need is counted. The rest is for temporaries, the
# data and other programs.
MEMORY_SHARE = 0.7
# The same if the need is measured, since that includes temporaries and data.
MEASURED_SHARE = 0.85
TRIED = (2, 4)  # members of the two populations whose memory is measured
# A larger pack must be this many times faster per run. Otherwise the smaller one is used: it takes
# less memory and makes finer progress.
WORTHWHILE = 1.05
PROBE_SHARE = 0.02  # the largest share of the estimated work that measuring may take
# Share of the places that must be free before runs join: a small pack would not repay its start.
JOIN_SHARE = 0.25
# Number of runs that fill a GPU: in larger populations a run-step is hardly any faster
# (docs/decisions/packs-side-by-side.md).
FULL = 16


@dataclass(frozen=True)
class Need:
    """The memory of a population of n members, `fixed + n * member` bytes, and the share of free
    memory that it may take.
    """

    member: int
    fixed: int = 0
    share: float = MEMORY_SHARE

    def fits(self, free: int) -> bool:
        """Whether one member fits."""
        return self.fixed + self.member <= self.share * free

    def fitting(self, free: int) -> int:
        """How many members fit; at least 1."""
        return max(1, int((self.share * free - self.fixed) / self.member))


def free_memory(device: torch.device) -> int:
    """Bytes that can be used now."""
    # The system counts memory cached from an earlier population as used, so release it first.
    if device.type == "cuda":
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(device)[0]
    trim_freed_memory()
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def measure_allocation(members: Sequence[RunSpec], task: Task, device: torch.device) -> int:
    """Peak bytes of these members on a GPU while they train and are evaluated."""
    torch.cuda.empty_cache()
    for split in ("train", *task.test_splits):
        task.batch(split, 0)  # allocate the data first, so that they are not counted
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    population = Population(members, task, device)
    population.train_step(population.next_rows())
    population.evaluate()
    return torch.cuda.max_memory_allocated(device) - before


Measure = Callable[[Sequence[RunSpec], Task, torch.device], int]


def estimate_need(
    runs: Sequence[RunSpec],
    task: Task,
    device: torch.device,
    free: int,
    measure: Measure = measure_allocation,
) -> Need:
    """Estimate the memory that a population of runs of this shape needs.

    On a CPU it is counted. On a GPU it is a line through two measured points, if the populations
    measured fit into the `free` memory.
    """
    counted = Need(cost(runs[0]).memory_bytes)
    small, large = TRIED
    if device.type == "cpu" or counted.fitting(free) < large:
        return counted  # a CPU fuses nothing, so the count is right; or it is too large to try out
    # The need of a member does not depend on its seed or rate, so runs are repeated if there are
    # too few. The first population takes the memory that libraries allocate once.
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
    need: Need,
    free: int,
) -> int:
    """The number of these runs of one shape that should train together, given their memory `need`
    and the `free` memory.
    """
    fits = need.fitting(free)
    if device.type != "cpu":
        return min(fits, len(runs))
    best, fastest, spent = min(2, len(runs)), math.inf, 0.0
    for size in _doubling(min(fits, len(runs))):
        start = time.perf_counter()
        per_run = speed.seconds_per_step(runs[:size], task, device) / size
        spent += time.perf_counter() - start
        if fastest / per_run < WORTHWHILE:
            break
        best, fastest = size, per_run
        if spent > PROBE_SHARE * per_run * len(runs) * runs[0].train.steps:
            break
    return best


def even_pack_size(runs: int, largest: int) -> int:
    """The size of the next pack, if `runs` form as few packs as possible of about equal size.

    A small last pack would not fill the device.
    """
    return -(-runs // max(1, -(-runs // largest)))


def count_joining(waiting: int, taken: int, largest: int, places: int) -> int:
    """How many of the `waiting` runs should begin while `taken` runs train and `largest` may.

    At first, the number that makes all packs about equally large. Later, as many as have ended of
    the `places` that were taken at the most, or all waiting runs if they fit, but not before
    JOIN_SHARE of the places is free.
    """
    room = min(waiting, min(largest, max(even_pack_size(waiting + taken, largest), places)) - taken)
    return 0 if taken and room < min(waiting, JOIN_SHARE * largest) else room


def _doubling(limit: int) -> Iterator[int]:
    size = 2
    while size < limit:
        yield size
        size *= 2
    yield max(1, limit)
