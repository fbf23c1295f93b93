"""How long what is left of a sweep will take. Mixers differ in speed by tens: each shape counts at
its own.

A shape that was seen counts at the seconds per run-step it took here; one that was not, at those of
the seen ones scaled by the operations of a step, as the planner counts them. (A run-step is one
optimiser step of one run.)
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from recollect.spec.run import RunSpec


class Pace:
    """Run-steps left by shape, and what those made so far took."""

    def __init__(self, runs: Iterable[RunSpec], operations: Callable[[RunSpec], int | None]):
        self._operations = operations
        self._example: dict[str, RunSpec] = {}
        self._counted: dict[str, int | None] = {}
        self.left: defaultdict[str, int] = defaultdict(int)
        self._made: defaultdict[str, int] = defaultdict(int)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        for run in runs:
            self._example.setdefault(run.shape_id, run)
            self.left[run.shape_id] += run.train.steps

    def took(self, shape: str, run_steps: int, seconds: float) -> None:
        """So many run-steps of a shape were made in so much time."""
        self._made[shape] += run_steps
        self._seconds[shape] += seconds

    @property
    def seconds(self) -> float | None:
        """For all that is left, one pack after the other; None before anything was made."""
        if not sum(self._made.values()):
            return None
        return sum(left * self._per_step(shape) for shape, left in self.left.items() if left)

    def _per_step(self, shape: str) -> float:
        if self._made[shape]:
            return self._seconds[shape] / self._made[shape]
        seen = [other for other, made in self._made.items() if made]
        seconds = sum(self._seconds[other] for other in seen)
        own, theirs = self._weight(shape), [self._weight(other) for other in seen]
        if own is None or None in theirs:
            return seconds / sum(self._made[other] for other in seen)
        return (
            seconds
            * own
            / sum(
                self._made[other] * weight
                for other, weight in zip(seen, theirs, strict=True)
                if weight
            )
        )

    def _weight(self, shape: str) -> int | None:
        if shape not in self._counted:
            self._counted[shape] = (
                self._operations(self._example[shape]) if shape in self._example else None
            )
        return self._counted[shape]
