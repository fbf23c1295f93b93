"""What the checksums of rows and evaluations cost: `python bench/checksums.py`.

Sweeps are trained with every call of the checksum timed, those of the database's triggers and of
reading included. Processor time of one process, so that others on the machine do not count.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect.api import Results
from recollect.running import engine
from recollect.spec.sweep import parse_sweep
from recollect.store import store as writing
from recollect.store.reading import checksums

# Runs of four steps are the worst there can be: a row is written for next to no training.
SWEEPS = {
    "runs of 4 steps, 1 evaluation": (4, 1, "width = 8\ndepth = 1"),
    "runs of 60 steps, 4 evaluations": (60, 4, "width = 16\ndepth = 1"),
    "runs of 400 steps, 20 evaluations": (400, 20, "width = 32\ndepth = 2"),
}
TEXT = """
[task]
name = "mqar"
vocabulary = 32
length = 16
pairs = 2
data = "fresh"
test_rows = 32
[model]
mixer = "attention"
{model}
[train]
steps = {steps}
batch = 32
evaluations = {evaluations}
[sweep]
train.lr = [1e-3, 1e-2]
seed = [1, 2, 3, 4]
"""


class Timed:
    """A checksum that counts its calls and their time."""

    def __init__(self, checksum: Callable[..., int]):
        self._checksum = checksum
        self.calls, self.seconds = 0, 0.0

    def __call__(self, *values: Any) -> int:
        start = time.thread_time()
        found = self._checksum(*values)
        self.seconds += time.thread_time() - start
        self.calls += 1
        return found


def measure(name: str) -> tuple[int, float, float, float]:
    """Calls for each run, microseconds a call, share of the sweep, and of reading it."""
    steps, evaluations, model = SWEEPS[name]
    sweep = parse_sweep(TEXT.format(model=model, steps=steps, evaluations=evaluations), name=name)
    timed = Timed(checksums.checksum)
    plain, checksums.checksum = checksums.checksum, timed
    writing.checksum = timed
    try:
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            engine.train(Path(folder), [sweep], device="cpu")
            trained = time.process_time() - start
            calls, summing = timed.calls, timed.seconds
            start = time.process_time()
            Results.load(folder)
            read = time.process_time() - start
    finally:
        checksums.checksum = writing.checksum = plain
    reading = (timed.seconds - summing) / read
    return calls // len(sweep.runs), 1e6 * summing / calls, summing / trained, reading


def main() -> None:
    measure(next(iter(SWEEPS)))  # torch warms up
    print(f"{'sweep':36} {'calls a run':>12} {'a call, µs':>11} {'of training':>12} {'reading':>9}")
    for name in SWEEPS:
        calls, microseconds, share, reading = measure(name)
        print(f"{name:36} {calls:12} {microseconds:11.1f} {share:12.3%} {reading:9.2%}", flush=True)


if __name__ == "__main__":
    main()
