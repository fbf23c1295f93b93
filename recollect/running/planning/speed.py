"""How fast shapes train on a device: one model of speed, asked by the forecast, the budget, the
progress and the choice of processes.

A run-step is one optimiser step of one run; mixers differ in its seconds by tens, so each shape
counts at its own.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

import torch

from recollect.running.planning.cost import cost, operations
from recollect.spec.run import RunSpec
from recollect.tasks.base import Task
from recollect.training.graph import WARM_CALLS
from recollect.training.population import Population

# Seconds of a multiply-add before anything was measured: rather too slow than too fast.
GUESSED_S = {"cpu": 5e-11, "cuda": 1e-13}


def guessed_s(device: torch.device) -> float:
    """Seconds of a multiply-add on a device of this kind."""
    return GUESSED_S.get(device.type, min(GUESSED_S.values()))


def count_operations(run: RunSpec) -> int | None:
    """Multiply-adds of a training step, also of code from outside."""
    return operations(run) or cost(run).operations


class SpeedModel:
    """Seconds of a run-step by shape: as measured, or learnt from what was trained since; else
    scaled by operations from the nearest known shape of the same mixer, else from all known ones;
    else guessed.
    """

    def __init__(
        self,
        guess_s: float | None = None,
        count: Callable[[RunSpec], int | None] = count_operations,
    ):
        """`guess_s`: seconds of a multiply-add; without one nothing is said before a first number.
        `count`: multiply-adds of a run-step; None where it is unknown.
        """
        self._guess_s, self._count = guess_s, count
        self._examples: dict[str, RunSpec] = {}  # all by shape
        self._operations: dict[str, int | None] = {}
        self._measured: dict[str, float] = {}
        self._run_steps: defaultdict[str, int] = defaultdict(int)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def measure(self, run: RunSpec, seconds: float) -> None:
        """A run-step of this shape was timed; replaces what smaller packs may have taught."""
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
        return self._measured.get(shape)

    def _work(self, run: RunSpec) -> int | None:
        if run.shape_id not in self._operations:
            self._operations[run.shape_id] = self._count(run)
        return self._operations[run.shape_id]


# ---- measuring ----


def seconds_per_step(
    members: Sequence[RunSpec], task: Task, device: torch.device, repeats: int = 2
) -> float:
    """One optimiser step of these members together, timed after those that warm up and record."""
    population = Population(members, task, device)
    start, warm = 0.0, warm_steps(device)
    for repeat in range(warm + repeats):
        if repeat == warm:
            wait(device)
            start = time.perf_counter()
        population.restart_clock()  # the shortest run has this step, its batch and its rate
        population.train_step(population.next_rows())
    wait(device)
    return (time.perf_counter() - start) / repeats


def warm_steps(device: torch.device) -> int:
    """Steps before a step takes as long as all later ones:
    on a GPU the one that records comes last.
    """
    return WARM_CALLS + 1 if device.type == "cuda" else 1


def wait(device: torch.device) -> None:
    """Until the device has done all it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
