"""What a run costs at the beginning of a sweep and at its end: `python bench/many_runs.py`.

A worker trains all runs of a sweep; the parent's look at the store is timed before and after.
Processor time, so that others on the machine do not count; the first of the runs trained are left
out, since they pay for the start.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from pathlib import Path

import torch
from choosing import SEEDS, sweep

from recollect.rows import Evaluation
from recollect.running import engine
from recollect.running.events import Event, RunEnded
from recollect.running.pack_queue import Selection
from recollect.running.processes.watching import StoreWatcher
from recollect.running.worker import Worker
from recollect.store import Store
from recollect.store.ownership import this_process
from recollect.store.records import Claims

LEFT_OUT = 40  # runs
TRAINING, LOOKS = 2 * SEEDS, 10  # runs that two processes train at once, looks of the parent
HELD_S = 86_400.0  # longer than any of this takes


def train(store: Store, folder: Path) -> list[float]:
    """Milliseconds of a run, by thirds of the sweep."""
    ends: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, RunEnded):
            ends.append(time.process_time())

    with Worker(store, folder, torch.device("cpu"), listen, threads=1) as worker:
        worker.work(Selection(pack_size=SEEDS))
    bounds = [LEFT_OUT + (len(ends) - 1 - LEFT_OUT) * third // 3 for third in range(4)]
    return [
        1e3 * (ends[end] - ends[start]) / (end - start) for start, end in itertools.pairwise(bounds)
    ]


def look(store: Store, claims: Claims) -> float:
    """Milliseconds of a look while these train."""
    watcher = StoreWatcher(store)
    spent = []
    for step in range(LOOKS):
        store.record(claims, [(run_id, Evaluation(step, 1, 1, 0.5, 0.5)) for run_id in claims])
        start = time.process_time()
        watcher.changes()
        spent.append(time.process_time() - start)
    store.rewind(claims, -1)
    return 1e3 * statistics.mean(spent)


def measure(folder: Path, runs: int) -> list[float]:
    """Milliseconds of a run in each third of the sweep, and of a look before and after them."""
    with Store.create(folder) as store:
        planned = sweep(runs)
        engine.plan(store, planned)
        held = [run.run_id for run in planned.runs[-TRAINING:]]
        claims = store.claim(held, this_process(), HELD_S)
        first_look = look(store, claims)
        return [*train(store, folder), first_look, look(store, claims)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="*", default=[2_000, 24_000])
    torch.set_num_threads(1)
    titles = ("first third, ms", "second, ms", "last, ms", "first look, ms", "last look, ms")
    print(f"{'runs':>8} " + " ".join(f"{title:>15}" for title in titles))
    for runs in parser.parse_args().runs:
        with tempfile.TemporaryDirectory() as name:
            found = measure(Path(name), runs)
        print(f"{runs:8,} " + " ".join(f"{number:15.2f}" for number in found), flush=True)


if __name__ == "__main__":
    main()
