"""Where the time of a step goes on a GPU, in microseconds per run-step:

`python bench/step_profile.py SWEEP.toml [MEMBERS]` for each shape of a sweep, or
`python bench/step_profile.py MIXER PRECISION [SHAPE]` for one of `recollect bench`.

Beside the kernels' own time it says how long a step takes: the rest is waiting between kernels.
"""

import sys
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from recollect.running.planning.bench import parse_shape
from recollect.running.planning.speed import wait, warm_steps
from recollect.spec.run import RunSpec
from recollect.spec.sweep import group_by_shape, read_sweep
from recollect.tasks.build import task_of
from recollect.training.population import Population

MEMBERS, STEPS, SHOWN = 16, 3, 25


def show(run: RunSpec, members: int, device: torch.device) -> None:
    seeds = [run.model_copy(update={"seed": seed}) for seed in range(members)]
    population = Population(seeds, task_of(run, device), device)
    for _ in range(warm_steps(device)):
        population.train_step(population.next_rows())
    wait(device)
    start = time.perf_counter()
    for _ in range(10 * STEPS):
        population.train_step(population.next_rows())
    wait(device)
    each_us = 1e6 * (time.perf_counter() - start) / (10 * STEPS * members)
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities) as profiled:
        for _ in range(STEPS):
            population.train_step(population.next_rows())
        wait(device)
    found = sorted(
        (
            (event.self_device_time_total / (STEPS * members), event.count / STEPS, event.key)
            for event in profiled.key_averages()
            if event.self_device_time_total
        ),
        reverse=True,
    )
    kernels_us = sum(entry[0] for entry in found)
    shape = f"length {run.task.longest}, width {run.model.width}, {run.model.depth} layers"
    print(
        f"{run.model.mixer.name}, {shape}, {members} members: {each_us:.1f} us per run-step, "
        f"{kernels_us:.1f} us of it in kernels"
    )
    for microseconds, launches, name in found[:SHOWN]:
        print(f"{microseconds:8.1f} us  x{launches:.0f}  {name[:100]}")


first, *rest = sys.argv[1:]
if first.endswith(".toml"):
    size = int(rest[0]) if rest else MEMBERS
    for group in group_by_shape(read_sweep(Path(first)).runs):
        show(group[0], size, torch.device("cuda"))
else:
    precision, *named = rest
    shape = parse_shape(named[0] if named else "S1")
    show(shape.run(first, precision), MEMBERS, torch.device("cuda"))
