"""What a sweep would cost, before it is started: populations, memory, time. Speed is measured on the device, not guessed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from recollect import planner, tasks
from recollect.spec import RunSpec
from recollect.sweep import pack

MEASURED_SHAPES = 12  # further shapes are scaled from the nearest measured one by their operations


@dataclass(frozen=True)
class Forecast:
    """One shape of a sweep."""

    example: RunSpec
    runs: int
    todo: int
    together: int  # members of a population
    parameters: int
    memory_bytes: int  # of one population
    seconds: float  # for all that is todo
    measured: bool

    @property
    def populations(self) -> int:
        return -(-self.todo // self.together)


def forecast(runs: Sequence[RunSpec], finished: Collection[str], device: torch.device) -> list[Forecast]:
    """One entry per shape, in the order of the sweep."""
    speeds: list[tuple[int, float, int]] = []  # operations, seconds per run-step, members: of the measured shapes
    forecasts = []
    available = torch.get_num_threads()
    for group in pack(runs):
        todo = [run for run in group if run.run_id not in finished]
        cost = planner.cost(group[0])
        measured = len(speeds) < MEASURED_SHAPES and bool(todo)
        if measured:
            planner.use_threads(group[0], available)
            task = tasks.build(group[0].task, group[0].data_seed, group[0].train.batch, device)
            together = planner.pack_size(todo, task, device)
            per_run = planner.seconds_per_step(todo[:together], task, device) / together
            speeds.append((cost.operations, per_run, together))
        elif speeds:
            operations, per_run, together = min(speeds, key=lambda speed: abs(speed[0] - cost.operations))
            per_run *= cost.operations / operations
        else:
            per_run, together = 0.0, 1  # nothing is todo here, and nothing was before
        seconds = per_run * sum(run.train.steps for run in todo)
        memory = cost.memory_bytes * together
        forecasts.append(Forecast(group[0], len(group), len(todo), together, cost.parameters, memory, seconds, measured))
    torch.set_num_threads(available)
    return forecasts
