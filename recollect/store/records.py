"""What goes into the store and comes out of it besides results (those are in rows.py).

Plain data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from recollect.rows import Evaluation, Status, StopReason

Claims = Mapping[str, int]  # run id -> the attempt it was claimed as


class PlannedRun(NamedTuple):
    run_id: str
    spec: str  # canonical JSON
    score_name: str
    chance: float


class PlanCounts(NamedTuple):
    """What planning found."""

    new: int
    known: dict[Status, int]  # how many of the planned runs were there before, by status


class Todo(NamedTuple):
    run_id: str
    spec: str
    pack_limit: int | None  # it may not train beside more than this; None: no limit known
    attempt: int = 0  # how often it was begun


class StoredSweep(NamedTuple):
    """A sweep as it was planned (spec.sweep.Sweep has its runs as specifications)."""

    name: str
    source: str  # the text it was planned from
    created: float
    run_ids: tuple[str, ...]


class Note(NamedTuple):
    time: float
    kind: str
    text: str


@dataclass(frozen=True)
class Result:
    """How one attempt ended; `last` is the final point of the curve,
    stored in the same transaction.
    """

    run_id: str
    attempt: int
    status: Literal["done", "diverged", "failed"]
    steps: int
    wall_s: float
    last: Evaluation | None = None
    stopped_early: StopReason | None = None
    diverged_step: int | None = None  # given if and only if diverged
    failure: str | None = None  # given if and only if failed: "oom: ..." or "lost: ..."
    parameters: int | None = None
    state_size: int | None = None
    device: str | None = None
    threads: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    drift: tuple[str, ...] = ()  # see RunRow
