"""Results as plain data: the rows that the store returns for analysis and reports.

No SQL and no torch.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
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
    # By test split: the same numbers, without train_loss.
    slices: dict[str, dict[str, float]] = field(default_factory=dict)
    # The score on a sample of training rows; None if every training row was new or if it was not
    # measured.
    train_score: float | None = None

    def score(self, name: str) -> float:
        """The score that the task uses; `name` is "accuracy" or "exact"."""
        return self.exact if name == "exact" else self.accuracy


@dataclass(frozen=True)
class RunRow:
    """One run with its latest numbers; `None` for numbers that do not exist yet."""

    run_id: str
    spec: dict[str, Any]  # the canonical specification, nested
    status: Status
    score_name: str  # "accuracy" or "exact": the score that the task uses
    chance: float  # the score of a model that has not learnt the binding
    attempt: int = 0
    # Optimiser steps taken; for a running or failed run, the step of its last evaluation.
    steps: int | None = None
    # The run's share of the wall time of its pack, in seconds, from its first step on.
    wall_s: float | None = None
    train_loss: float | None = None
    test_loss: float | None = None
    accuracy: float | None = None
    exact: float | None = None
    train_score: float | None = None  # on a sample of training rows, if rows are repeated
    # Why the run ended before its last step, where its specification allows that.
    stopped_early: StopReason | None = None
    diverged_step: int | None = None  # first step whose loss was not finite
    failure: str | None = None  # "oom: ..." or "lost: ..."
    parameters: int | None = None
    state_size: int | None = None  # floats a recurrent decoder keeps per layer and sequence
    device: str | None = None
    threads: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    # Changes of the environment during training. With any, the bits of the result cannot be
    # reproduced.
    drift: tuple[str, ...] = ()

    @property
    def recipe(self) -> str:
        """The recipe of the run: "study", or "study but dropout=0"; see spec/recipes."""
        return recipe_of(self.spec)

    @property
    def has_result(self) -> bool:
        """Whether the run trained to its end or diverged. A failed run has no result."""
        return self.status in WITH_RESULT

    @property
    def is_finished(self) -> bool:
        """Whether the run has a result or failed, so that no worker will train it."""
        return self.status in FINISHED

    @property
    def score(self) -> float | None:
        """The score of the run; while it trains, the score of its last evaluation.

        A diverged run has score 0: with the score of chance it would look like a model that has
        learnt which answers are possible. A failed run has no score.
        """
        if self.status == "diverged":
            return 0.0
        if self.status == "failed":
            return None
        return self.exact if self.score_name == "exact" else self.accuracy


def as_running(rows: Sequence[RunRow], run_ids: Collection[str]) -> list[RunRow]:
    """The rows, with these runs in training."""
    return [replace(row, status="running") if row.run_id in run_ids else row for row in rows]
