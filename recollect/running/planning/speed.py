"""The speed of training shapes on a device: one model, used by the forecast, the budget, the
progress view and the choice of processes.

A run-step is one optimiser step of one run, here with its share of the run's evaluations. Its time
differs between mixers by factors of tens, so each shape has its own.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import torch

from recollect.running.planning.cost import cost, evaluation_stretch, operations
from recollect.spec.run import RunSpec
from recollect.tasks.base import Task
from recollect.training.graph import WARM_CALLS
from recollect.training.population import Population

# Steps timed for one number: the fewest, and the most while they take less than TIMED_S together.
FEWEST_TIMED, MOST_TIMED, TIMED_S = 2, 8, 0.1
# Assumed seconds of a multiply-add before anything is measured: rather too slow than too fast.
GUESSED_S = {"cpu": 5e-11, "cuda": 1e-13}


def guessed_s(device: torch.device) -> float:
    """Assumed seconds of a multiply-add on a device of this kind."""
    return GUESSED_S.get(device.type, min(GUESSED_S.values()))


def count_operations(run: RunSpec) -> int | None:
    """Multiply-adds of a training step, also for foreign code."""
    return operations(run) or cost(run).operations


class SpeedModel:
    """Seconds of a run-step by shape.

    They come from the first of these sources that is available:

      learnt     from training of the shape
      measured   for the shape, times the ratio of training time to measured time over shapes known
                 both ways (training is slowed by other processes and checkpoints)
      scaled     by operations, from the nearest known shape of the same mixer, else from all known
                 shapes
      guessed    from operations
    """

    def __init__(
        self,
        guess_s: float | None = None,
        count: Callable[[RunSpec], int | None] = count_operations,
    ):
        """`guess_s`: assumed seconds of a multiply-add; without it, nothing is known before the
        first measurement. `count`: returns the multiply-adds of a training step, None if unknown.
        """
        self._guess_s, self._count = guess_s, count
        # All by shape.
        self._examples: dict[str, RunSpec] = {}
        self._operations: dict[str, float | None] = {}
        self._measured: dict[str, float] = {}
        self._run_steps: defaultdict[str, int] = defaultdict(int)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def measure(self, run: RunSpec, seconds: float) -> None:
        """Record the measured seconds of a run-step, including its share of the evaluations.

        This replaces what was learnt from training, perhaps in smaller packs.
        """
        self._examples.setdefault(run.shape_id, run)
        self._measured[run.shape_id] = seconds
        self._run_steps.pop(run.shape_id, None)
        self._seconds.pop(run.shape_id, None)

    def learn(self, run: RunSpec, run_steps: int, seconds: float) -> None:
        """Record that training made this number of run-steps of a shape in these seconds."""
        self._examples.setdefault(run.shape_id, run)
        self._run_steps[run.shape_id] += run_steps
        self._seconds[run.shape_id] += seconds

    def seconds(self, run: RunSpec) -> float | None:
        """Seconds of one run-step; None if nothing is known and there is no guess."""
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
        """A run of the known shape most similar to this one: by mixer, then by operations."""

        def distance(other: RunSpec) -> tuple[bool, float]:
            one, two = self._work(run), self._work(other)
            apart = abs(math.log(one / two)) if one and two else math.inf
            return other.model.mixer.name != run.model.mixer.name, apart

        return min(self._known(), key=distance, default=None)

    def is_known(self, run: RunSpec) -> bool:
        """Whether this shape itself was measured or trained."""
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
        """Time that training took, divided by the time measured before it began."""
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

    Some runs end early. So a run that has not begun counts with the mean share of their steps that
    earlier runs made, of its shape or else of its mixer. A run in training counts in full, and so
    does every run of a mixer before the first of them has begun.
    """

    def __init__(self, speeds: SpeedModel):
        self.speeds = speeds
        # By shape, in steps.
        self._examples: dict[str, RunSpec] = {}
        self._left: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()  # the part of _left of runs that have not begun
        self._planned: Counter[str] = Counter()  # of runs that have begun
        self._expected: Counter[str] = Counter()  # steps that these runs made or should make
        self._begun: set[str] = set()  # run ids

    @property
    def run_steps(self) -> int:
        """The run-steps left if no run ends early."""
        return sum(self._left.values())

    def seconds_without(self, unneeded: Mapping[str, int]) -> float | None:
        """Seconds left for one process, if so many run-steps of runs that have not begun are not
        made, by shape; None if a shape's speed is unknown or no run is known.
        """
        return self.seconds_with(self._waiting - Counter(unneeded))

    def seconds_with(self, waiting: Mapping[str, int]) -> float | None:
        """The same if only so many run-steps of runs that have not begun are made, by shape."""
        if not self._examples:
            return None
        by_mixer = self._shares_by_mixer()
        total = 0.0
        for shape, left in self._left.items():
            run, begun = self._examples[shape], left - self._waiting[shape]
            steps = begun + self._share(run, by_mixer) * waiting.get(shape, 0)
            each = self.speeds.seconds(run) if steps else 0.0
            if each is None:
                return None
            total += each * steps
        return total

    def share(self, run: RunSpec) -> float:
        """The share of its steps that a run of this shape should make before it ends."""
        return self._share(run, self._shares_by_mixer())

    def _share(self, run: RunSpec, by_mixer: Mapping[str, float]) -> float:
        planned = self._planned[run.shape_id]
        if planned:
            return self._expected[run.shape_id] / planned
        return by_mixer.get(run.model.mixer.name, 1.0)

    def plan(self, run: RunSpec) -> None:
        """Add a run that has to be trained."""
        self._examples.setdefault(run.shape_id, run)
        self._left[run.shape_id] += run.train.steps
        self._waiting[run.shape_id] += run.train.steps

    def begin(self, run: RunSpec) -> None:
        """Record that a run trains, perhaps not for the first time."""
        if run.run_id not in self._begun:
            self._begun.add(run.run_id)
            self.note(run, run.train.steps)
            self._waiting[run.shape_id] -= min(run.train.steps, self._waiting[run.shape_id])

    def note(self, run: RunSpec, made: int) -> None:
        """Record that a run of this shape ended earlier, after `made` steps."""
        self._examples.setdefault(run.shape_id, run)
        self._planned[run.shape_id] += run.train.steps
        self._expected[run.shape_id] += made

    def move(self, shape_id: str, run_steps: int) -> None:
        """Subtract run-steps from those left; a negative number adds."""
        self._left[shape_id] -= run_steps

    def end(self, run: RunSpec, made: int) -> None:
        """Record that a run has ended after `made` steps."""
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
    """Seconds of one optimiser step of these members together.

    Returns the fastest of several steps, after the steps that warm up and record. Without a
    `clock`, other programs are left out as far as possible (undisturbed_clock). `patience_s`: go on
    timing for at least this long, in wall-clock time, to find a fast step.
    """
    clock, patience = clock or undisturbed_clock(device), time.monotonic() + patience_s
    population = Population(members, task, device)

    def step() -> None:
        population.restart_clock()  # every run, however short, has this step, its batch and rate
        population.train_step(population.next_rows())

    for _ in range(warm_steps(device)):
        step()
    found: list[float] = []
    # On a GPU several steps are timed at once, since it computes one while the next is prepared.
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
    """A clock that other programs disturb little: on a CPU, the computing time of this thread.

    This thread takes part in everything that torch computes. Other programs count only as far as
    they share its caches and its core.
    """
    return time.thread_time if device.type == "cpu" else time.perf_counter


def warm_steps(device: torch.device) -> int:
    """Number of steps before the time of a step is constant; on a GPU the last of them records."""
    return WARM_CALLS + 1 if device.type == "cuda" else 1


def wait(device: torch.device) -> None:
    """Wait until the device has done all its queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
