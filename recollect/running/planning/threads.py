"""The number of CPU threads by a run's shape. It is torch's setting for the whole process, so it is
set for a while and then restored.
"""

import contextlib
import math
from collections.abc import Iterator

import torch

from recollect.spec.run import RunSpec
from recollect.training.population import ROW_MULTIPLE

# Tokens x layers x width^2 from which a step has more than one thread. At the smallest measured,
# 1.6 million, a second thread makes it faster (docs/decisions/threads-on-a-cpu.md).
LARGE_STEP = 1_000_000
GAIN = 1.4  # speed-up from doubling the threads; 1.3 to 1.5 were measured there


@contextlib.contextmanager
def threads_for(run: RunSpec, available: int) -> Iterator[int]:
    """Compute with the number of threads for the shape of `run`, then restore the old number."""
    before, wanted = torch.get_num_threads(), choose_threads(run, available)
    torch.set_num_threads(wanted)
    try:
        yield wanted
    finally:
        torch.set_num_threads(before)


def choose_threads(run: RunSpec, available: int) -> int:
    """The number of CPU threads for a run's shape: a power of two that divides the batch into whole
    blocks.

    Otherwise rows have to be padded (see Population._pad_rows), and padding does not help with an
    odd number of threads. A step smaller than any measured has one thread. The rule depends on the
    specification and not on a measurement: bits depend on the number of threads, and a resumed run
    must have as many as before.
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


def thread_gain(threads: int) -> float:
    """Expected speed-up of a step over one thread, on a machine without other load."""
    return GAIN ** math.log2(threads)
