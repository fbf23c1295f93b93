"""How long threads that wait should spin: `python bench/spinning.py [SPINCOUNT ...]`.

Milliseconds of a run-step with two threads, for each value of GOMP_SPINCOUNT (`default`: not set),
beside no, one and two programs that compute all the time.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

COUNTS = ("default", "500", "1000", "3000")
MODELS = (("attention", 64), ("mamba", 32))
THREADS, MEMBERS, SECONDS, TURNS, MOST_BUSY = 2, 4, 2.5, 3, 2


@contextlib.contextmanager
def busy(programs: int) -> Iterator[None]:
    """Beside so many programs that compute all the time."""
    running = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(programs)
    ]
    try:
        yield
    finally:
        for program in running:
            program.kill()
            program.wait()


def measured_apart(count: str) -> str:
    """OpenMP reads its settings once, so each value has a process of its own. There torch is loaded
    before this package, which would choose one.
    """
    own = {} if count == "default" else {"GOMP_SPINCOUNT": count}
    call = [sys.executable, __file__, "--here"]
    return subprocess.run(
        call, env=os.environ | own, capture_output=True, text=True, check=True
    ).stdout.strip()


def measure() -> None:
    import torch

    from recollect.spec.run import RunSpec
    from recollect.tasks.build import task_of
    from recollect.training.population import Population

    torch.set_num_threads(THREADS)
    device, found = torch.device("cpu"), []
    task = {"name": "mqar", "vocabulary": 128, "length": 12, "pairs": 3, "data": "fresh"}
    for mixer, width in MODELS:
        runs = [
            RunSpec.parse(
                {
                    "task": task,
                    "model": {"mixer": mixer, "width": width},
                    "train": {"steps": 10_000, "batch": 64, "lr": 1e-3},
                    "seed": seed,
                }
            )
            for seed in range(MEMBERS)
        ]
        population = Population(runs, task_of(runs[0], device), device)
        population.train_step(population.next_rows())
        start, steps = time.perf_counter(), 0
        while time.perf_counter() - start < SECONDS:
            population.train_step(population.next_rows())
            steps += 1
        found.append(f"{1000 * (time.perf_counter() - start) / steps / MEMBERS:.1f}")
    print(" / ".join(found))


if __name__ == "__main__":
    if sys.argv[1:] == ["--here"]:
        measure()
    else:
        for programs in range(MOST_BUSY + 1):
            for count in sys.argv[1:] or COUNTS:
                with busy(programs):
                    turns = [measured_apart(count) for _ in range(TURNS)]
                print(f"beside {programs}, {count}: {', '.join(turns)} ms", flush=True)
