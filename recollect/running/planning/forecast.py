"""What a sweep would cost, before it is started: populations, memory, time.

Speed is measured on the device, not guessed.
"""

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch

from recollect.running.planning import planner
from recollect.spec.run import RunSpec
from recollect.spec.sweep import pack
from recollect.tasks.build import build_task

MEASURED_SHAPES = (
    12  # further shapes are scaled from the nearest measured one by their operations ...
)
MEASURE_S = (
    30.0  # ... and so are those for which no time is left: a forecast should not be waited for
)
PROBE_STEPS, TWO_STEPS = (
    40,
    6,
)  # run-steps it takes to find the best number of members, and to time two of them
GUESSED_S = {"cpu": 5e-11, "cuda": 1e-13}
FIRST_S = (
    1.0  # for the first look at a mixer, by that guess; where it takes longer, with fewer rows
)
FEWEST_ROWS = 16


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

    @property
    def scaled(self) -> bool:
        """By operations, from shapes that were measured."""
        return self.todo > 0 and not self.measured


@dataclass(frozen=True)
class _Speed:
    """What was measured of one shape."""

    mixer: str
    operations: int
    per_run: float  # seconds of a run-step
    together: int
    need: planner.Need


def forecast(
    runs: Sequence[RunSpec], finished: Collection[str], device: torch.device
) -> list[Forecast]:
    """One entry per shape, in the order of the sweep."""
    groups = pack(runs)
    costs = [planner.cost(group[0]) for group in groups]
    todos = [[run for run in group if run.run_id not in finished] for group in groups]
    available = torch.get_num_threads()
    speeds, glimpses = _measure(todos, costs, device, available)
    torch.set_num_threads(available)
    forecasts = []
    for index, (group, cost, todo) in enumerate(zip(groups, costs, todos, strict=True)):
        speed = _Speed(
            "", cost.operations, 0.0, 1, planner.Need(cost.memory_bytes)
        )  # of what is finished
        if index in speeds:
            speed = speeds[index]
        elif todo:
            known = [*speeds.values(), *glimpses]
            near = min(
                known,
                key=lambda at: (
                    at.mixer != group[0].model.mixer.name,
                    _far(at.operations, cost.operations),
                ),
            )
            per_run = near.per_run * cost.operations / near.operations
            speed = replace(speed, per_run=per_run, together=min(near.together, len(todo)))
        seconds = speed.per_run * sum(run.train.steps for run in todo)
        memory = speed.need.fixed + speed.need.member * speed.together
        parts = (
            len(group),
            len(todo),
            speed.together,
            cost.parameters,
            memory,
            seconds,
            index in speeds,
        )
        forecasts.append(Forecast(group[0], *parts))
    return forecasts


def _measure(
    todos: Sequence[Sequence[RunSpec]],
    costs: Sequence[planner.Cost],
    device: torch.device,
    threads: int,
) -> tuple[dict[int, _Speed], list[_Speed]]:
    """Speeds by place in the sweep, the cheapest first while there is time; and of shapes with
    fewer rows, one a mixer.
    """
    start = time.monotonic()
    cheapest = sorted(
        (index for index, todo in enumerate(todos) if todo),
        key=lambda index: costs[index].operations,
    )
    firsts: dict[str, int] = {}
    for index in cheapest:
        firsts.setdefault(todos[index][0].model.mixer.name, index)
    speeds: dict[int, _Speed] = {}
    glimpses: list[_Speed] = []
    guess = guessed_s(device)
    for index in firsts.values():
        if TWO_STEPS * costs[index].operations * guess > FIRST_S:
            glimpses.append(
                _glimpse(todos[index], TWO_STEPS * costs[index].operations * guess, device, threads)
            )
    for index in [*firsts.values(), *(index for index in cheapest if index not in firsts.values())]:
        todo, operations = todos[index], costs[index].operations
        per_operation = [
            at.per_run / at.operations
            for at in (*speeds.values(), *glimpses)
            if at.mixer == _mixer(todo)
        ]
        expected = operations * max(per_operation, default=guess)
        left = MEASURE_S - (time.monotonic() - start)
        if len(speeds) < MEASURED_SHAPES and TWO_STEPS * expected < left:
            speeds[index] = _speed(
                todo, costs[index], device, threads, probe=PROBE_STEPS * expected < left / 2
            )
    return speeds, glimpses


def guessed_s(device: torch.device) -> float:
    """Seconds of a multiply-add, before anything was measured: rather too slow than too fast."""
    return GUESSED_S.get(device.type, min(GUESSED_S.values()))


def _speed(
    todo: Sequence[RunSpec], cost: planner.Cost, device: torch.device, threads: int, probe: bool
) -> _Speed:
    """Of as many members as train fastest, or without `probe` of two."""
    planner.use_threads(todo[0], threads)
    task = build_task(todo[0].task, todo[0].data_seed, todo[0].train.batch, device)
    together, need = min(2, len(todo)), planner.Need(cost.memory_bytes)
    if probe:
        need = planner.need(todo, task, device)
        together = planner.evenly(len(todo), planner.pack_size(todo, task, device))
    per_run = planner.seconds_per_step(todo[:together], task, device) / together
    return _Speed(_mixer(todo), cost.operations, per_run, together, need)


def _glimpse(
    todo: Sequence[RunSpec], expected_s: float, device: torch.device, threads: int
) -> _Speed:
    """The speed of two members with so few rows that it should take FIRST_S."""
    batch = todo[0].train.batch
    while (
        batch % 2 == 0
        and batch > FEWEST_ROWS
        and expected_s * batch / todo[0].train.batch > FIRST_S
    ):
        batch //= 2
    fewer = [
        run.model_copy(update={"train": run.train.model_copy(update={"batch": batch})})
        for run in todo[:2]
    ]
    return _speed(fewer, planner.cost(fewer[0]), device, threads, probe=False)


def _mixer(runs: Sequence[RunSpec]) -> str:
    return runs[0].model.mixer.name


def _far(one: int, other: int) -> float:
    return abs(math.log(one / other))
