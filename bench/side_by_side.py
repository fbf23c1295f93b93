"""Two populations stepped in turn, each on its stream, beside one of the sum: `python
bench/side_by_side.py MIXER SHAPE N ...`.

For each N, run-steps per second of N + N members: waiting for the device after every step, so that
nothing overlaps; as training does; and as one population of 2 N. Needs a CUDA device to say
anything; runs on a CPU too.
"""

import sys
import time
from collections.abc import Callable

import torch

from recollect.running.planning.bench import parse_shape
from recollect.running.planning.speed import wait, warm_steps
from recollect.spec.run import RunSpec
from recollect.tasks.base import Task
from recollect.tasks.build import build_task
from recollect.training.population import Population

STEPS = 40


def per_second(populations: list[Population], after_each: Callable[[], None]) -> float:
    """Run-steps, of all members of all populations."""
    device, task = populations[0].device, populations[0].task
    start = 0.0
    for step in range(warm_steps(device) + STEPS):
        if step == warm_steps(device):
            wait(device)
            start = time.perf_counter()
        for population in populations:
            population.train_step(task.batch("train", step))
            after_each()
    wait(device)
    return (
        STEPS
        * sum(len(population.members) for population in populations)
        / (time.perf_counter() - start)
    )


def population(run: RunSpec, task: Task, device: torch.device, seeds: range) -> Population:
    return Population([run.model_copy(update={"seed": seed}) for seed in seeds], task, device)


if __name__ == "__main__":
    mixer, shape, *sizes = sys.argv[1:]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    run = parse_shape(shape).run(mixer)
    task = build_task(run.task, run.data_seed, run.train.batch, device)
    for size in map(int, sizes):
        found = []
        for after_each in (lambda: wait(device), lambda: None):
            two = [
                population(run, task, device, range(size)),
                population(run, task, device, range(size, 2 * size)),
            ]
            found.append(per_second(two, after_each))
            del two
        found.append(per_second([population(run, task, device, range(2 * size))], lambda: None))
        apart, beside, one = found
        print(
            f"{mixer} {shape} {size} + {size}: apart {apart:.0f}, side by side "
            f"{beside:.0f}, as one {one:.0f} run-steps/s"
        )
