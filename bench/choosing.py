"""What a sweep of many small packs costs beside its training: `python bench/choosing.py`.

Processor time to choose and claim a pack, and of a look of the parent at the store, by the number
of runs that wait, a thousand of which are claimed by then; packs are of twenty runs.
"""

import argparse
import itertools
import tempfile
import time
from pathlib import Path

import torch

from recollect.running import engine
from recollect.running.events import ignore
from recollect.running.pack_queue import EVERYTHING, PackQueue, Selection
from recollect.running.processes.watching import StoreWatcher
from recollect.running.shapes import Shapes
from recollect.spec.run import RunSpec
from recollect.spec.sweep import Sweep
from recollect.store import Store
from recollect.store.ownership import this_process

SEEDS, PACKS, LOOKS = 20, 50, 10


def sweep(runs: int) -> Sweep:
    """Packs that differ in their data alone: every run is as much work as any other."""

    def run(data_seed: int, seed: int) -> RunSpec:
        task = {"name": "mqar", "vocabulary": 32, "length": 8, "pairs": 2, "test_rows": 16}
        model = {"mixer": "attention", "width": 8, "depth": 1}
        train = {"steps": 4, "batch": 32, "evaluations": 1}
        parts = {"task": task, "model": model, "train": train}
        return RunSpec.parse(parts | {"seed": seed, "data_seed": data_seed})

    packs = itertools.product(range(runs // SEEDS), range(SEEDS))
    return Sweep("many", "", tuple(itertools.starmap(run, packs)))


def measure(folder: Path, runs: int) -> tuple[float, float]:
    """Milliseconds of a choice and of a look."""
    with Store.create(folder) as store:
        engine.plan(store, sweep(runs))
        shapes = Shapes(store, folder, torch.device("cpu"), 1)
        queue = PackQueue(store, folder / "checkpoints", shapes, ignore)
        queue.waiting(EVERYTHING)  # read once
        watcher = StoreWatcher(store)
        start = time.process_time()
        for _ in range(PACKS):
            choice = queue.next(Selection(pack_size=SEEDS), (), 0)
            assert choice is not None
            store.claim([run.run_id for run in choice.runs], this_process(), 60)
        chosen = time.process_time() - start
        start = time.process_time()
        for _ in range(LOOKS):
            watcher.changes()
        looked = time.process_time() - start
    return 1e3 * chosen / PACKS, 1e3 * looked / LOOKS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="*", default=[2_000, 6_000, 24_000])
    print(f"{'runs':>8} {'choice, ms':>12} {'look, ms':>10}")
    for runs in parser.parse_args().runs:
        with tempfile.TemporaryDirectory() as name:
            chosen, looked = measure(Path(name), runs)
        print(f"{runs:8,} {chosen:12.1f} {looked:10.1f}", flush=True)


if __name__ == "__main__":
    main()
