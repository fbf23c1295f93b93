"""How fast shapes train on a device: one model of speed, asked by the forecast, the budget, the
progress and the choice of processes.

A run-step is one optimiser step of one run, here with its share of the run's evaluations; mixers
differ in its seconds by tens, so each shape counts at its own.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import torch

from recollect.running.planning.cost import cost, evaluation_stretch, operations
from recollect.spec.run import RunSpec
from recollect.tasks.base import Task
from recollect.training.graph import WARM_CALLS
from recollect.training.population import Population

# Steps that are timed for one number, the fewest and, while they are quick, the most.
FEWEST_TIMED, MOST_TIMED, TIMED_S = 2, 8, 0.1
# Seconds of a multiply-add before anything was measured: rather too slow than too fast.
GUESSED_S = {"cpu": 5e-11, "cuda": 1e-13}


def guessed_s(device: torch.device) -> float:
    """Seconds of a multiply-add on a device of this kind."""
    return GUESSED_S.get(device.type, min(GUESSED_S.values()))


def count_operations(run: RunSpec) -> int | None:
    """Multiply-adds of a training step, also of code from outside."""
    return operations(run) or cost(run).operations


class SpeedModel:
    """Seconds of a run-step by shape: as learnt from what was trained; or as measured, times how
    much longer training took of shapes that are known both ways (other processes, checkpoints);
    else scaled by operations from the nearest known shape of the same mixer, else from all known
    ones; else guessed.
    """

    def __init__(
        self,
        guess_s: float | None = None,
        count: Callable[[RunSpec], int | None] = count_operations,
    ):
        """`guess_s`: seconds of a multiply-add; without one nothing is said before a first number.
        `count`: multiply-adds of a training step; None where it is unknown.
        """
        self._guess_s, self._count = guess_s, count
        self._examples: dict[str, RunSpec] = {}  # all by shape
        self._operations: dict[str, float | None] = {}
        self._measured: dict[str, float] = {}
        self._run_steps: defaultdict[str, int] = defaultdict(int)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def measure(self, run: RunSpec, seconds: float) -> None:
        """A run-step of this shape takes so long, its share of the evaluations included; replaces
        what smaller packs may have taught.
        """
        self._examples.setdefault(run.shape_id, run)
        self._measured[run.shape_id] = seconds
        self._run_steps.pop(run.shape_id, None)
        self._seconds.pop(run.shape_id, None)

    def learn(self, run: RunSpec, run_steps: int, seconds: float) -> None:
        """Training made so many run-steps of this shape in so many seconds."""
        self._examples.setdefault(run.shape_id, run)
        self._run_steps[run.shape_id] += run_steps
        self._seconds[run.shape_id] += seconds

    def seconds(self, run: RunSpec) -> float | None:
        """Of one run-step; None where nothing is known and nothing may be guessed."""
        own = self._known_seconds(run.shape_id)
        if own is not None:
            return own
        work, near = self._work(run), self.nearest(run)
        if near is None:
            return None if work is None or self._guess_s is None else work * self._guess_s
        like = [near] if work and near.model.mixer.name == run.model.mixer.name else self._known()
        weights = [self._run_steps.get(other.shape_id) or 1 for other in like]
        seconds = sum(
            weight * (self._known_seconds(other.shape_id) or 0.0)
            for weight, other in zip(weights, like, strict=True)
        )
        works = [self._work(other) for other in like]
        if work is None or None in works:
            return seconds / sum(weights)
        made = sum(weight * (count or 0) for weight, count in zip(weights, works, strict=True))
        return seconds * work / made

    def nearest(self, run: RunSpec) -> RunSpec | None:
        """A run of the known shape that is most like this one: by mixer, then by operations."""

        def distance(other: RunSpec) -> tuple[bool, float]:
            one, two = self._work(run), self._work(other)
            apart = abs(math.log(one / two)) if one and two else math.inf
            return other.model.mixer.name != run.model.mixer.name, apart

        return min(self._known(), key=distance, default=None)

    def is_known(self, run: RunSpec) -> bool:
        """Whether this very shape was measured or trained."""
        return self._known_seconds(run.shape_id) is not None

    def _known(self) -> list[RunSpec]:
        return [
            example
            for shape, example in self._examples.items()
            if self._known_seconds(shape) is not None
        ]

    def _known_seconds(self, shape: str) -> float | None:
        if self._run_steps.get(shape):
            return self._seconds[shape] / self._run_steps[shape]
        measured = self._measured.get(shape)
        return None if measured is None else measured * self._slowdown()

    def _slowdown(self) -> float:
        """How much longer training took than what was measured before it began."""
        both = [shape for shape in self._measured if self._run_steps.get(shape)]
        expected = math.fsum(self._measured[shape] * self._run_steps[shape] for shape in both)
        took = math.fsum(self._seconds[shape] for shape in both)
        return took / expected if expected > 0 and took > 0 else 1.0

    def _work(self, run: RunSpec) -> float | None:
        """Multiply-adds of a run-step."""
        if run.shape_id not in self._operations:
            count = self._count(run)
            self._operations[run.shape_id] = count and count * evaluation_stretch(run)
        return self._operations[run.shape_id]


class WorkLeft:
    """The run-steps that a sweep still has to make, by shape, and the seconds they should take.

    A run that has not begun counts with the share of its steps that those before it made, of its
    shape or else of its mixer: some end early. One under way counts in full, and so does every run
    of a mixer before the first of it has begun.
    """

    def __init__(self, speeds: SpeedModel):
        self.speeds = speeds
        self._examples: dict[str, RunSpec] = {}  # all by shape
        self._left: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()  # of these, steps of runs that have not begun
        self._planned: Counter[str] = Counter()  # of runs that have begun
        self._expected: Counter[str] = Counter()  # of these, steps that they made or should make
        self._begun: set[str] = set()  # runs

    @property
    def run_steps(self) -> int:
        """If no run ends early."""
        return sum(self._left.values())

    @property
    def seconds(self) -> float | None:
        """For one process; None where nothing is known of a shape's speed, or nothing is left."""
        if not self._examples:
            return None
        by_mixer = self._shares_by_mixer()
        total = 0.0
        for shape, left in self._left.items():
            run = self._examples[shape]
            each = self.speeds.seconds(run)
            if each is None:
                return None
            share = by_mixer.get(run.model.mixer.name, 1.0)
            if self._planned[shape]:
                share = self._expected[shape] / self._planned[shape]
            total += each * (left - (1 - share) * self._waiting[shape])
        return total

    def plan(self, run: RunSpec) -> None:
        """It has to be trained."""
        self._examples.setdefault(run.shape_id, run)
        self._left[run.shape_id] += run.train.steps
        self._waiting[run.shape_id] += run.train.steps

    def begin(self, run: RunSpec) -> None:
        """It trains, perhaps not for the first time."""
        if run.run_id not in self._begun:
            self._begun.add(run.run_id)
            self.note(run, run.train.steps)
            self._waiting[run.shape_id] -= min(run.train.steps, self._waiting[run.shape_id])

    def note(self, run: RunSpec, made: int) -> None:
        """A run like this one had ended before, after so many steps."""
        self._examples.setdefault(run.shape_id, run)
        self._planned[run.shape_id] += run.train.steps
        self._expected[run.shape_id] += made

    def move(self, shape_id: str, run_steps: int) -> None:
        """So many fewer are left; more, if it is less than 0."""
        self._left[shape_id] -= run_steps

    def end(self, run: RunSpec, made: int) -> None:
        """It made so many steps and will make no more."""
        self.begin(run)
        self._expected[run.shape_id] -= run.train.steps - made

    def _shares_by_mixer(self) -> dict[str, float]:
        planned: Counter[str] = Counter()
        expected: Counter[str] = Counter()
        for shape, steps in self._planned.items():
            name = self._examples[shape].model.mixer.name
            planned[name] += steps
            expected[name] += self._expected[shape]
        return {name: expected[name] / steps for name, steps in planned.items() if steps}


# ---- measuring ----


def seconds_per_step(
    members: Sequence[RunSpec],
    task: Task,
    device: torch.device,
    clock: Callable[[], float] | None = None,
    patience_s: float = 0.0,
) -> float:
    """One optimiser step of these members together, the fastest of several, after those that warm
    up and record. Without a `clock`: as if nothing else used the machine. `patience_s`: so long, by
    the time of day, a fast one is waited for at least.
    """
    clock, patience = clock or undisturbed_clock(device), time.monotonic() + patience_s
    population = Population(members, task, device)

    def step() -> None:
        population.restart_clock()  # the shortest run has this step, its batch and its rate
        population.train_step(population.next_rows())

    for _ in range(warm_steps(device)):
        step()
    found: list[float] = []
    # A GPU is asked for several steps at a time: it computes one while the next is prepared.
    together = 1 if device.type == "cpu" else FEWEST_TIMED
    while (
        len(found) < FEWEST_TIMED
        or (len(found) < MOST_TIMED and sum(found) < TIMED_S)
        or time.monotonic() < patience
    ):
        wait(device)
        start = clock()
        for _ in range(together):
            step()
        wait(device)
        found.append((clock() - start) / together)
    return min(found)


def undisturbed_clock(device: torch.device) -> Callable[[], float]:
    """On a CPU the time that this thread computed: it takes part in all that torch computes, and
    other programs count only as far as they share its caches and its core.
    """
    return time.thread_time if device.type == "cpu" else time.perf_counter


def warm_steps(device: torch.device) -> int:
    """Steps before a step takes as long as all later ones:
    on a GPU the one that records comes last.
    """
    return WARM_CALLS + 1 if device.type == "cuda" else 1


def wait(device: torch.device) -> None:
    """Until the device has done all it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
