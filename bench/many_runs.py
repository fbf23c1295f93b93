"""What a run costs in a small sweep and in a large one: `python bench/many_runs.py`.

A worker trains some of the first runs of a sweep, then, when all others have ended, some of its
last; the parent's look at the store is timed beside it. Processor time, so that others on the
machine do not count; the first of the runs trained are left out, since they pay for the start.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from choosing import SEEDS, sweep

from recollect.rows import Evaluation
from recollect.running import engine
from recollect.running.events import Event, RunEnded
from recollect.running.pack_queue import Selection
from recollect.running.processes.watching import StoreWatcher
from recollect.running.worker import Worker
from recollect.store import Result, Store
from recollect.store.ownership import this_process

TRAINED, LEFT_OUT = 200, 40  # runs
TRAINING, LOOKS = 2 * SEEDS, 10  # runs that two processes train at once, looks of the parent
END = Evaluation(4, 1.0, 1.0, 0.5, 0.5)


def train(store: Store, folder: Path, run_ids: Sequence[str]) -> float:
    """Milliseconds of a run."""
    ends: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, RunEnded):
            ends.append(time.process_time())

    with Worker(store, folder, torch.device("cpu"), listen, threads=1) as worker:
        worker.work(Selection(frozenset(run_ids), pack_size=SEEDS))
    return 1e3 * (ends[-1] - ends[LEFT_OUT]) / (len(ends) - LEFT_OUT)


def look(store: Store, run_ids: Sequence[str]) -> float:
    """Milliseconds of a look while as many runs train as two processes have."""
    watcher = StoreWatcher(store)
    claims = store.claim(run_ids[:TRAINING], this_process(), 60)
    spent = []
    for step in range(LOOKS):
        store.record(claims, [(run_id, Evaluation(step, 1, 1, 0.5, 0.5)) for run_id in claims])
        start = time.process_time()
        watcher.changes()
        spent.append(time.process_time() - start)
    store.rewind(claims, -1)
    store.release(claims)
    return 1e3 * statistics.mean(spent)


def measure(folder: Path, runs: int) -> tuple[float, float, float, float]:
    """Milliseconds of one of the first runs, of one of the last, and of a look at both times."""
    with Store.create(folder) as store:
        planned = sweep(runs)
        engine.plan(store, planned)
        run_ids = [run.run_id for run in planned.runs]
        first_look = look(store, run_ids)
        first = train(store, folder, run_ids[:TRAINED])
        others = store.claim(run_ids[TRAINED:-TRAINED], this_process(), 60)
        store.finish(Result(run_id, at, "done", 4, 0.1, END) for run_id, at in others.items())
        last_look = look(store, run_ids[-TRAINED:])
        last = train(store, folder, run_ids[-TRAINED:])
    return first, last, first_look, last_look


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="*", default=[2_000, 24_000])
    torch.set_num_threads(1)
    titles = ("first run, ms", "last run, ms", "first look, ms", "last look, ms")
    print(f"{'runs':>8} " + " ".join(f"{title:>15}" for title in titles))
    for runs in parser.parse_args().runs:
        with tempfile.TemporaryDirectory() as name:
            found = measure(Path(name), runs)
        print(f"{runs:8,} " + " ".join(f"{number:15.2f}" for number in found), flush=True)


if __name__ == "__main__":
    main()
