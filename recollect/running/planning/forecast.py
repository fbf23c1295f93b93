"""What a sweep would cost, before it is started: populations, memory, time.

Speed is measured on the device, not guessed.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from recollect.running.planning import memory, speed
from recollect.running.planning.cost import Cost, cost
from recollect.running.planning.speed import SpeedModel, guessed_s
from recollect.running.planning.threads import threads_for
from recollect.spec.run import RunSpec
from recollect.spec.sweep import group_by_shape
from recollect.tasks.build import task_of

# Further shapes are scaled from the nearest measured one by their operations, and so are those for
# which no time is left: a forecast should not be waited for.
MEASURED_SHAPES = 12
MEASURE_S = 30.0
# Run-steps it takes to find the best number of members, and to time two of them.
PROBE_STEPS, TWO_STEPS = 40, 6
# For the first look at a mixer, by the guessed speed; where it takes longer, with fewer rows.
FIRST_S = 1.0
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
class _Packing:
    """How runs of a shape were trained together while they were timed."""

    together: int
    need: memory.Need


def forecast(
    runs: Sequence[RunSpec], finished: Collection[str], device: torch.device
) -> list[Forecast]:
    """One entry per shape, in the order of the sweep."""
    groups = group_by_shape(runs)
    costs = {group[0].shape_id: cost(group[0]) for group in groups}
    todos = [
        left for group in groups if (left := [run for run in group if run.run_id not in finished])
    ]
    measuring = _Measuring(device)
    measuring.measure(todos, costs)
    return [
        _forecast_shape(group, finished, costs[group[0].shape_id], measuring) for group in groups
    ]


def _forecast_shape(
    group: Sequence[RunSpec], finished: Collection[str], cost: Cost, measured: "_Measuring"
) -> Forecast:
    example = group[0]
    todo = [run for run in group if run.run_id not in finished]
    packing = _Packing(1, memory.Need(cost.memory_bytes))
    if example.shape_id in measured.shapes:
        packing = measured.packings[example.shape_id]
    elif todo:
        near = measured.speeds.nearest(todo[0])
        together = measured.packings[near.shape_id].together if near else 2
        packing = _Packing(min(together, len(todo)), packing.need)
    run_steps = sum(run.train.steps for run in todo)
    return Forecast(
        example,
        len(group),
        len(todo),
        packing.together,
        cost.parameters,
        packing.need.fixed + packing.need.member * packing.together,
        run_steps * (measured.speeds.seconds(todo[0]) or 0.0) if todo else 0.0,
        example.shape_id in measured.shapes,
    )


class _Measuring:
    """Times shapes on a device for a limited time."""

    def __init__(self, device: torch.device):
        self.device = device
        self.threads = torch.get_num_threads()
        self.speeds = SpeedModel(guessed_s(device))
        self.packings: dict[str, _Packing] = {}  # by shape
        self.shapes: set[str] = set()  # those of the sweep that were timed as they are

    def measure(self, todos: Sequence[Sequence[RunSpec]], costs: dict[str, Cost]) -> None:
        """The cheapest shape of every mixer, then the others, the cheapest first, while there is
        time. A mixer whose cheapest shape takes long is timed with fewer rows before.
        """
        start = time.monotonic()
        cheapest = sorted(todos, key=lambda todo: costs[todo[0].shape_id].operations)
        firsts: dict[str, Sequence[RunSpec]] = {}
        for todo in cheapest:
            firsts.setdefault(todo[0].model.mixer.name, todo)
        for todo in firsts.values():
            work = costs[todo[0].shape_id].operations
            expected_s = TWO_STEPS * work * guessed_s(self.device)
            if expected_s > FIRST_S:
                self._time(_with_fewer_rows(todo, expected_s), probe=False)
        known = [todo[0].shape_id for todo in firsts.values()]
        others = [todo for todo in cheapest if todo[0].shape_id not in known]
        for todo in (*firsts.values(), *others):
            expected = self.speeds.seconds(todo[0]) or 0.0
            left_s = MEASURE_S - (time.monotonic() - start)
            if len(self.shapes) < MEASURED_SHAPES and TWO_STEPS * expected < left_s:
                self._time(todo, probe=PROBE_STEPS * expected < left_s / 2)
                self.shapes.add(todo[0].shape_id)

    def _time(self, todo: Sequence[RunSpec], probe: bool) -> None:
        """As many members as train fastest, or without `probe` two."""
        run = todo[0]
        with threads_for(run, self.threads):
            task = task_of(run, self.device)
            together, need = min(2, len(todo)), memory.Need(cost(run).memory_bytes)
            if probe:
                need = memory.estimate_need(todo, task, self.device)
                together = memory.even_pack_size(
                    len(todo), memory.pack_size(todo, task, self.device, need)
                )
            seconds = speed.seconds_per_step(todo[:together], task, self.device)
        self.speeds.measure(run, seconds / together)
        self.packings[run.shape_id] = _Packing(together, need)


def _with_fewer_rows(todo: Sequence[RunSpec], expected_s: float) -> list[RunSpec]:
    """Two of these runs with so few rows that timing them should take FIRST_S."""
    batch = whole = todo[0].train.batch
    while batch % 2 == 0 and batch > FEWEST_ROWS and expected_s * batch / whole > FIRST_S:
        batch //= 2
    # Parsed anew: a copy would keep the identity of the shape it was copied from.
    tables = [run.model_dump(mode="json") for run in todo[:2]]
    return [
        RunSpec.parse({**table, "train": table["train"] | {"batch": batch}}) for table in tables
    ]
