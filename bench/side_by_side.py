"""How much more populations do side by side, each on its stream, than one after the other.

`python bench/side_by_side.py MIXER SHAPE N ...`: for each N two populations of N members of one of
the shapes of `recollect bench`, beside one of 2 N, in run-steps per second.

`python bench/side_by_side.py SWEEP.toml N ...`: populations of N members of the first shapes of a
sweep; of the first two, the first three, and so on. The work of each population is counted in
seconds that it takes alone, so 1 means that nothing is gained. "In turn": all make the same number
of steps. "At their own speeds": as a worker steps them, whenever few steps wait for the device.

Needs a CUDA device to say anything; runs on a CPU too.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from recollect.running.planning.bench import parse_shape
from recollect.running.planning.speed import wait, warm_steps
from recollect.spec.run import RunSpec
from recollect.spec.sweep import group_by_shape, read_sweep
from recollect.tasks.build import task_of
from recollect.training.population import Population

STEPS = 40
MOST_SHAPES = 8


def build(device: torch.device, members: Sequence[RunSpec]) -> Population:
    """A population whose step is recorded."""
    population = Population(members, task_of(members[0], device), device)
    for _ in range(warm_steps(device)):
        step(population)
    return population


def step(population: Population) -> None:
    population.restart_clock()  # a population may make more steps here than its runs have
    population.train_step(population.next_rows())


def steps_per_second(populations: Sequence[Population], in_turn: bool = True) -> list[float]:
    """Steps of each population while all train, until each has made STEPS."""
    device, made = populations[0].device, [0] * len(populations)
    wait(device)
    start = time.perf_counter()
    while min(made) < STEPS:
        for place, population in enumerate(populations):
            if in_turn or not population.is_ahead():
                step(population)
                made[place] += 1
    wait(device)
    seconds = time.perf_counter() - start
    return [steps / seconds for steps in made]


def seeds(run: RunSpec, numbers: range) -> list[RunSpec]:
    return [run.model_copy(update={"seed": seed}) for seed in numbers]


def compare_shapes(device: torch.device, shapes: Sequence[RunSpec], size: int) -> None:
    populations, alone = [], []
    for run in shapes:
        populations.append(build(device, seeds(run, range(size))))
        alone += steps_per_second(populations[-1:])
        name = f"{run.model.mixer.name} {run.task.longest}x{run.model.depth}"
        text = f"{size} of {name}: {size * alone[-1]:.0f} run-steps/s alone"
        if len(populations) > 1:
            turn, own = (
                sum(map(lambda now, solo: now / solo, steps_per_second(populations, how), alone))
                for how in (True, False)
            )
            text += f"; {len(populations)} shapes side by side: {turn:.2f} in turn, {own:.2f} at"
            text += " their own speeds"
        print(text, flush=True)


def compare_halves(device: torch.device, run: RunSpec, size: int) -> tuple[float, float, float]:
    """Run-steps/s of two populations one after the other, of both side by side, and as one."""
    halves = [build(device, seeds(run, range(k * size, (k + 1) * size))) for k in (0, 1)]
    apart = [steps_per_second([half])[0] for half in halves]
    beside = steps_per_second(halves)
    (one,) = steps_per_second([build(device, seeds(run, range(2 * size)))])
    return size * sum(apart) / 2, size * sum(beside), 2 * size * one


if __name__ == "__main__":
    first, *rest = sys.argv[1:]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if first.endswith(".toml"):
        groups = group_by_shape(read_sweep(Path(first)).runs)[:MOST_SHAPES]
        for size in map(int, rest):
            compare_shapes(device, [group[0] for group in groups], size)
    else:
        shape, *sizes = rest
        for size in map(int, sizes):
            apart, beside, one = compare_halves(device, parse_shape(shape).run(first), size)
            print(
                f"{first} {shape} {size} + {size}: apart {apart:.0f}, side by side "
                f"{beside:.0f}, as one {one:.0f} run-steps/s"
            )
