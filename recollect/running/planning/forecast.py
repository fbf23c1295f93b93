"""Forecasts the cost of a sweep before it is started: populations, memory, time.

Speed is measured on the device, not guessed.
"""

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import torch

from recollect.rows import RunRow
from recollect.running.planning import memory, speed
from recollect.running.planning.cost import Cost, cost, evaluation_stretch, operations
from recollect.running.planning.speed import SpeedModel, guessed_s
from recollect.running.planning.threads import choose_threads, thread_gain, threads_for
from recollect.running.processes.devices import as_current
from recollect.spec.cell import cell_id
from recollect.spec.run import RunSpec
from recollect.spec.sweep import group_by_shape
from recollect.tasks.build import task_of
from recollect.training.environment import device_name

# Limits on measuring, so that a forecast is quick. The time of all other shapes is scaled from the
# nearest measured shape by their operations.
MEASURED_SHAPES = 12
MEASURE_S = 30.0
# Run-steps needed to find the best number of members, and to time two members.
PROBE_STEPS, TWO_STEPS = 40, 6
# While other programs use the CPU, only few steps are undisturbed. So shapes are timed a second
# time: for at most this share of a shape's predicted time, and at most these seconds in total.
AGAIN_SHARE, AGAIN_S = 0.1, 4.0
# The longest first look at a mixer, by the guessed speed; one that would take longer uses fewer
# rows.
FIRST_S = 1.0
FEWEST_ROWS = 16
# A first look at all mixers before training: its seconds, and the largest share of the guessed
# training time that it may take.
LOOK_S, LOOK_SHARE = 3.0, 0.05
Tell = Callable[[int, int, RunSpec], None]  # shapes timed, shapes to time, the next one


@dataclass(frozen=True)
class Forecast:
    """The forecast for one shape of a sweep."""

    example: RunSpec
    runs: int
    todo: int
    together: int  # members of a population
    parameters: int
    memory_bytes: int  # of one population
    seconds: float  # for all todo runs
    measured: bool

    @property
    def populations(self) -> int:
        return -(-self.todo // self.together)

    @property
    def scaled(self) -> bool:
        """Whether the time is scaled by operations from measured shapes."""
        return self.todo > 0 and not self.measured


@dataclass(frozen=True)
class _Packing:
    """How many runs of a shape were timed together, and the memory they need."""

    together: int
    need: memory.Need


def forecast(
    runs: Sequence[RunSpec],
    finished: Collection[str],
    device: torch.device,
    tell: Tell = lambda done, of, run: None,
) -> list[Forecast]:
    """Return one forecast per shape, in the order of the sweep.

    `tell` is called before each shape is timed.
    """
    groups = group_by_shape(runs)
    costs = {group[0].shape_id: cost(group[0]) for group in groups}
    todos = [
        left for group in groups if (left := [run for run in group if run.run_id not in finished])
    ]
    measuring = _Measuring(device, tell)
    with as_current(device):
        measuring.measure(todos, costs)
    return [
        _forecast_shape(group, finished, costs[group[0].shape_id], measuring) for group in groups
    ]


def step_seconds(rows: Sequence[RunRow], device: torch.device) -> dict[str, float]:
    """Estimate the seconds of a run-step by shape, before training continues with these rows.

    The estimate comes from ended runs on the same kind of device, and from a first look for mixers
    without such runs.
    """
    steps: Counter[str] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    known: set[str] = set()
    for run, made, took_s in ended_runs(rows, device):
        steps[run.shape_id] += made
        seconds[run.shape_id] += took_s
        known.add(run.model.mixer.name)
    todo = [RunSpec.parse(row.spec) for row in rows if not row.is_finished]
    unknown = [run for run in todo if run.model.mixer.name not in known]
    # A single mixer needs no first look: its own training soon shows its speed.
    alone = len(known | {run.model.mixer.name for run in unknown}) < 2
    looked = {} if alone else first_look(unknown, device)
    return looked | {shape: seconds[shape] / steps[shape] for shape in steps}


def ended_runs(
    rows: Sequence[RunRow], device: torch.device
) -> Iterator[tuple[RunSpec, int, float]]:
    """Yield a run of the same cell, steps and seconds of each run that ended on this kind of device
    and whose specification can be read here.
    """
    cells: dict[str, RunSpec | None] = {}  # there are far fewer cells than runs
    for row in rows:
        if row.wall_s and row.steps and row.device == device_name(device):
            cell = cell_id(row.spec)
            if cell not in cells:
                cells[cell] = RunSpec.parse_known(row.spec)
            run = cells[cell]
            if run is not None:
                yield run, row.steps, row.wall_s


def first_look(runs: Sequence[RunSpec], device: torch.device) -> dict[str, float]:
    """Time the smallest shape of each mixer; return the seconds of a run-step by shape.

    This predicts the time of shapes that training has not reached. Returns nothing if the look is
    not worth the wait: for a short sweep, and on a GPU, which has to compile kernels first.
    """
    guesses = SpeedModel(guessed_s(device), operations)

    def guess(run: RunSpec) -> float:
        return guesses.seconds(run) or 0.0

    firsts = _first_shapes(group_by_shape(runs), guess)
    whole_s = sum(guess(run) * run.train.steps for run in runs)
    if device.type != "cpu" or LOOK_SHARE * whole_s < LOOK_S:
        return {}
    measuring, start = _Measuring(device), time.monotonic()
    found: dict[str, float] = {}
    for todo in firsts:
        run = todo[0]
        few = _with_fewer_rows(todo, TWO_STEPS * guess(run), LOOK_S / len(firsts))
        # Training will meet the same error and report it.
        with contextlib.suppress(Exception):
            if time.monotonic() - start < LOOK_S:
                measuring.time_shape(few, probe=False)
                found[run.shape_id] = measuring.speeds.seconds(run) or 0.0
    return found


def _first_shapes(
    groups: Sequence[Sequence[RunSpec]], size: Callable[[RunSpec], float]
) -> list[Sequence[RunSpec]]:
    """The smallest shape of every mixer, in ascending order of size."""
    firsts: dict[str, Sequence[RunSpec]] = {}
    for group in sorted(groups, key=lambda group: size(group[0])):
        firsts.setdefault(group[0].model.mixer.name, group)
    return list(firsts.values())


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

    def __init__(self, device: torch.device, tell: Tell = lambda done, of, run: None):
        self.device, self.tell = device, tell
        self.threads = torch.get_num_threads()
        self.speeds = SpeedModel(guessed_s(device))
        self.packings: dict[str, _Packing] = {}  # by shape
        self.shapes: set[str] = set()  # shapes of the sweep that were timed with all their rows

    def measure(self, todos: Sequence[Sequence[RunSpec]], costs: dict[str, Cost]) -> None:
        """Time the cheapest shape of every mixer, then the others in ascending order of cost, while
        there is time.

        A mixer whose cheapest shape takes long is first timed with fewer rows.
        """
        start = time.monotonic()

        def work(run: RunSpec) -> int:
            return costs[run.shape_id].operations

        firsts = _first_shapes(todos, work)
        for todo in firsts:
            expected_s = TWO_STEPS * work(todo[0]) * guessed_s(self.device)
            if expected_s > FIRST_S:
                self.time_shape(_with_fewer_rows(todo, expected_s, FIRST_S), probe=False)
        known = [todo[0].shape_id for todo in firsts]
        others = [todo for todo in todos if todo[0].shape_id not in known]
        ordered = [*firsts, *sorted(others, key=lambda todo: work(todo[0]))][:MEASURED_SHAPES]
        for place, todo in enumerate(ordered):
            self.tell(place, len(ordered), todo[0])
            expected = (self.speeds.seconds(todo[0]) or 0.0) * self._gain(todo[0])
            left_s = MEASURE_S - (time.monotonic() - start)
            if TWO_STEPS * expected < left_s:
                self.time_shape(todo, probe=PROBE_STEPS * expected < left_s / 2)
                self.shapes.add(todo[0].shape_id)
        for todo in ordered:
            if self.device.type == "cpu" and todo[0].shape_id in self.shapes:
                self._time_again(todo, AGAIN_S / len(self.shapes))

    def _time_again(self, todo: Sequence[RunSpec], most_s: float) -> None:
        """Time a shape again and keep the faster of both times.

        Does nothing if even the fewest steps would take longer than the time allowed.
        """
        run, before = todo[0], self.speeds.seconds(todo[0]) or 0.0
        members = todo[: self.packings[run.shape_id].together]
        patience_s = min(most_s, AGAIN_SHARE * before * sum(run.train.steps for run in todo))
        fewest = speed.warm_steps(self.device) + speed.FEWEST_TIMED
        if fewest * len(members) * before * self._gain(run) <= patience_s:
            self.speeds.measure(run, min(before, self._run_step_s(members, patience_s)))

    def time_shape(self, todo: Sequence[RunSpec], probe: bool) -> None:
        """Time a shape: with the number of members that trains fastest, or without `probe` two."""
        run = todo[0]
        together, need = min(2, len(todo)), memory.Need(cost(run).memory_bytes)
        if probe:
            with self._timing_threads(run):
                task, free = task_of(run, self.device), memory.free_memory(self.device)
                need = memory.estimate_need(todo, task, self.device, free)
                together = memory.even_pack_size(
                    len(todo), memory.pack_size(todo, task, self.device, need, free)
                )
        self.speeds.measure(run, self._run_step_s(todo[:together]))
        self.packings[run.shape_id] = _Packing(together, need)

    def _run_step_s(self, members: Sequence[RunSpec], patience_s: float = 0.0) -> float:
        """Timed seconds of a run-step, corrected for evaluations and for training's threads."""
        with self._timing_threads(members[0]):
            task = task_of(members[0], self.device)
            seconds = speed.seconds_per_step(members, task, self.device, patience_s=patience_s)
        return evaluation_stretch(members[0]) * seconds / len(members) / self._gain(members[0])

    def _gain(self, run: RunSpec) -> float:
        """Expected speed of training a shape, divided by its speed when timed."""
        if self.device.type != "cpu":
            return 1.0
        return thread_gain(choose_threads(run, self.threads))

    def _timing_threads(self, run: RunSpec) -> contextlib.AbstractContextManager[int]:
        """Set the number of threads for timing: one on a CPU.

        While other programs run, threads wait for one another and use CPU time while they wait
        (docs/decisions/forecast-beside-others.md).
        """
        return threads_for(run, 1 if self.device.type == "cpu" else self.threads)


def _with_fewer_rows(todo: Sequence[RunSpec], expected_s: float, most_s: float) -> list[RunSpec]:
    """Return two of these runs, with the batch reduced so that timing them should take `most_s`."""
    batch = whole = todo[0].train.batch
    while batch % 2 == 0 and batch > FEWEST_ROWS and expected_s * batch / whole > most_s:
        batch //= 2
    # Parse instead of copy: a copy would keep the shape id of its original.
    tables = [run.model_dump(mode="json") for run in todo[:2]]
    return [
        RunSpec.parse({**table, "train": table["train"] | {"batch": batch}}) for table in tables
    ]
