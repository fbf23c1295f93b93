"""What a result is: the rows that the store hands to analysis and report.

Plain data, no SQL, no torch.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from recollect.spec.recipes import recipe_of

Status = Literal["todo", "running", "done", "diverged", "failed"]
STATUSES: tuple[Status, ...] = ("todo", "running", "done", "diverged", "failed")
WITH_RESULT: tuple[Status, ...] = ("done", "diverged")
FINISHED: tuple[Status, ...] = (*WITH_RESULT, "failed")
StopReason = Literal["solved", "hopeless"]


@dataclass(frozen=True)
class Evaluation:
    """One point of a run's curve."""

    step: int
    train_loss: float  # mean over the steps since the previous evaluation
    test_loss: float
    accuracy: float  # share of scored labels answered right
    exact: float  # share of test rows with every scored label right
    # Per test split: the same numbers but train_loss.
    slices: dict[str, dict[str, float]] = field(default_factory=dict)
    # The score on a sample of training rows; None if each row was new, or it was not measured.
    train_score: float | None = None

    def score(self, name: str) -> float:
        """The number its task is judged by: `name` is "accuracy" or "exact"."""
        return self.exact if name == "exact" else self.accuracy


@dataclass(frozen=True)
class RunRow:
    """One run with its latest numbers; `None` where there is none yet."""

    run_id: str
    spec: dict[str, Any]  # the canonical specification, nested
    status: Status
    score_name: str  # "accuracy" or "exact": which of the two the task is judged by
    chance: float  # the score of a model that has not learnt the binding
    attempt: int = 0
    # Optimiser steps taken; while it trains, or where it failed, those of its last evaluation.
    steps: int | None = None
    # The run's share of the time of all that trained beside it, from its first step on.
    wall_s: float | None = None
    train_loss: float | None = None
    test_loss: float | None = None
    accuracy: float | None = None
    exact: float | None = None
    train_score: float | None = None  # on a sample of training rows, if they came again and again
    # Why it ended before its last step; its specification allowed it.
    stopped_early: StopReason | None = None
    diverged_step: int | None = None  # first step whose loss was not finite
    failure: str | None = None  # "oom: ..." or "lost: ..."
    parameters: int | None = None
    state_size: int | None = None  # floats a recurrent decoder keeps per layer and sequence
    device: str | None = None
    threads: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    # What was not the same all the time it was trained: its bits are then nobody else's.
    drift: tuple[str, ...] = ()

    @property
    def recipe(self) -> str:
        """What it was trained with: "study", or "study but dropout=0", see spec/recipes."""
        return recipe_of(self.spec)

    @property
    def has_result(self) -> bool:
        """It ended by itself: trained to its end, or diverged. A failed run has no result."""
        return self.status in WITH_RESULT

    @property
    def is_finished(self) -> bool:
        """No worker will train it: it has a result, or failed."""
        return self.status in FINISHED

    @property
    def score(self) -> float | None:
        """The number a run is judged by; while it trains, that of its last evaluation. A diverged
        run counts as 0: at chance it would look like a model that has learnt what there is to
        choose from. A failed run is not judged.
        """
        if self.status == "diverged":
            return 0.0
        if self.status == "failed":
            return None
        return self.exact if self.score_name == "exact" else self.accuracy
