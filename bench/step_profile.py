"""Where the time of a step goes on a GPU:

`python bench/step_profile.py MIXER PRECISION [SHAPE]`, microseconds per run-step.
"""

import sys

import torch
from torch.profiler import ProfilerActivity, profile

from recollect.running.planning.bench import parse_shape
from recollect.running.planning.speed import wait, warm_steps
from recollect.tasks.build import build_task
from recollect.training.population import Population

MEMBERS, STEPS, SHOWN = 16, 3, 25

device = torch.device("cuda")
mixer, precision, *shape = sys.argv[1:]
run = parse_shape(shape[0] if shape else "S1").run(mixer, precision)
task = build_task(run.task, run.data_seed, run.train.batch, device)
population = Population(
    [run.model_copy(update={"seed": seed}) for seed in range(MEMBERS)], task, device
)
for step in range(warm_steps(device)):
    population.train_step(task.batch("train", step))
wait(device)
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
    for step in range(STEPS):
        population.train_step(task.batch("train", step))
    wait(device)
share = STEPS * MEMBERS
found = sorted(
    (
        (event.self_device_time_total / share, event.count / STEPS, event.key)
        for event in profiled.key_averages()
    ),
    reverse=True,
)
print(f"{sum(entry[0] for entry in found):.1f} us in all")
for microseconds, launches, name in found[:SHOWN]:
    print(f"{microseconds:8.1f} us  x{launches:.0f}  {name[:100]}")
