"""Plain data that the store takes and returns, except for results (see rows.py)."""

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
    """Numbers of new and of already stored runs of a plan."""

    new: int
    known: dict[Status, int]  # number of planned runs that were stored before, by status


class UnplanCounts(NamedTuple):
    """Numbers of runs that left the store, that other sweeps keep, and that had begun."""

    gone: int
    shared: int
    begun: int


class Todo(NamedTuple):
    run_id: str
    spec: str
    pack_limit: int | None  # largest pack it may train in; None: no limit known
    attempt: int = 0  # number of attempts so far


class StoredSweep(NamedTuple):
    """A planned sweep with the ids of its runs; spec.sweep.Sweep holds their specifications."""

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
    """How one attempt ended.

    `last` is the final point of the curve; it is stored in the same transaction.
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
