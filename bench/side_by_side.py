"""Populations stepped in turn, each on its stream.

`python bench/side_by_side.py MIXER SHAPE N ...`: for each N two populations of N members of one of
the shapes of `recollect bench`, beside one of 2 N. `python bench/side_by_side.py SWEEP.toml N ...`:
one population of N members for each shape of a sweep, at most four.

Run-steps per second: waiting for the device after every step, so that nothing overlaps; as training
does; and as one population. Needs a CUDA device to say anything; runs on a CPU too.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from recollect.running.planning.bench import parse_shape
from recollect.running.planning.speed import wait, warm_steps
from recollect.running.worker import MOST_PACKS
from recollect.spec.run import RunSpec
from recollect.spec.sweep import group_by_shape, read_sweep
from recollect.tasks.build import task_of
from recollect.training.population import Population

STEPS = 40


def per_second(populations: Sequence[Population], after_each: Callable[[], None]) -> float:
    """Run-steps, of all members of all populations."""
    device = populations[0].device
    start = 0.0
    for step in range(warm_steps(device) + STEPS):
        if step == warm_steps(device):
            wait(device)
            start = time.perf_counter()
        for population in populations:
            population.train_step(population.next_rows())
            after_each()
    wait(device)
    members = sum(len(population.members) for population in populations)
    return STEPS * members / (time.perf_counter() - start)


def apart_and_beside(
    device: torch.device, parts: Sequence[Sequence[RunSpec]]
) -> tuple[float, float]:
    def build() -> list[Population]:
        tasks = {id(part): task_of(part[0], device) for part in parts}
        return [Population(part, tasks[id(part)], device) for part in parts]

    return per_second(build(), lambda: wait(device)), per_second(build(), lambda: None)


def seeds(run: RunSpec, numbers: range) -> list[RunSpec]:
    return [run.model_copy(update={"seed": seed}) for seed in numbers]


if __name__ == "__main__":
    first, *rest = sys.argv[1:]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if first.endswith(".toml"):
        shapes = [group[0] for group in group_by_shape(read_sweep(Path(first)).runs)][:MOST_PACKS]
        for size in map(int, rest):
            apart, beside = apart_and_beside(device, [seeds(run, range(size)) for run in shapes])
            names = ", ".join(
                f"{run.model.mixer.name} {run.task.longest}x{run.model.depth}" for run in shapes
            )
            print(
                f"{size} each of {names}: apart {apart:.0f}, side by side {beside:.0f} run-steps/s"
            )
    else:
        shape, *sizes = rest
        run = parse_shape(shape).run(first)
        for size in map(int, sizes):
            halves = [seeds(run, range(size)), seeds(run, range(size, 2 * size))]
            apart, beside = apart_and_beside(device, halves)
            whole = [Population(seeds(run, range(2 * size)), task_of(run, device), device)]
            one = per_second(whole, lambda: None)
            print(
                f"{first} {shape} {size} + {size}: apart {apart:.0f}, side by side "
                f"{beside:.0f}, as one {one:.0f} run-steps/s"
            )
