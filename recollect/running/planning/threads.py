"""CPU threads by a run's shape. The number is torch's, for the whole process:
it is set for a while and put back.
"""

import contextlib
import math
from collections.abc import Iterator

import torch

from recollect.spec.run import RunSpec
from recollect.training.population import ROW_MULTIPLE

# Tokens x layers x width^2 of a step with more than one thread; in the smallest one measured, 1.6
# million, a second pays (docs/decisions/threads-on-a-cpu.md).
LARGE_STEP = 1_000_000
GAIN = 1.4  # of twice as many threads: 1.3 to 1.5 were measured there


@contextlib.contextmanager
def threads_for(run: RunSpec, available: int) -> Iterator[int]:
    """Compute with as many threads as the shape of `run` has, then with as many as before."""
    before, wanted = torch.get_num_threads(), choose_threads(run, available)
    torch.set_num_threads(wanted)
    try:
        yield wanted
    finally:
        torch.set_num_threads(before)


def choose_threads(run: RunSpec, available: int) -> int:
    """The number of CPU threads for a run's shape:
    a power of two whose shares of a batch are whole blocks.

    Otherwise rows have to be padded (see Population._pad_rows), and with an odd number of threads
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


def thread_gain(threads: int) -> float:
    """How many times faster a step should be than with one thread, where nothing else computes."""
    return GAIN ** math.log2(threads)
