"""One attempt at one pack: the work of one node.

An ordinary Worker trains the pack in a temporary store on the node's disk. Everything that the
store records also goes into the attempt's spool on the shared disk, and checkpoints go into the
attempt's folder there. The next attempt continues from both. Every file is written by only one
process, so nothing depends on locks, clocks or the order of renames.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from recollect.errors import ResourceError, SpecError, Stopped
from recollect.mixers.plugins.runs import require_mixers
from recollect.rows import Evaluation
from recollect.running.cluster.history import PackHistory, read_history
from recollect.running.cluster.place import describe_place
from recollect.running.cluster.plan import Plan
from recollect.running.cluster.spool import (
    Attempt,
    Spool,
    attempts,
    checkpoint_folder,
    job_name,
    next_attempt,
)
from recollect.running.events import Event, PackStarted, TrainingStarted, ignore
from recollect.running.pack import LEASE_S
from recollect.running.pack_queue import Selection
from recollect.running.signals import never
from recollect.running.worker import Worker
from recollect.spec.run import RunSpec
from recollect.store import Claims, PlannedRun, Result, Store
from recollect.store.durable import make_folder
from recollect.store.keep_policy import KeepPolicy
from recollect.store.ownership import this_process
from recollect.training.environment import code_digest

LOOK_EVERY_S = 30.0  # interval between looks for an attempt that has replaced this one
SUPERSEDED = 75  # the code that stops training then; not an exit code of the command line


@dataclass(frozen=True)
class PackOutcome:
    """How an attempt ended: complete or superseded. `failures`: the reason for each failed run."""

    why: str
    trained: int
    failures: tuple[str, ...] = ()


class SpoolingStore(Store):
    """A store that also writes its results into a spool."""

    spool: Spool
    place: dict[str, str]  # host, device and code, recorded in every row

    def record(self, claims: Claims, evaluations: Iterable[tuple[str, Evaluation]]) -> set[str]:
        points = list(evaluations)
        refused = super().record(claims, points)
        self.spool.points(pair for pair in points if pair[0] not in refused)
        return refused

    def progress(self, claims: Claims, step: int) -> set[str]:
        refused = super().progress(claims, step)
        self.spool.saved(step)
        return refused

    def finish(self, results: Iterable[Result]) -> set[str]:
        placed = [replace(result, versions={**result.versions, **self.place}) for result in results]
        refused = super().finish(placed)
        self.spool.results(result for result in placed if result.run_id not in refused)
        return refused

    def note(self, kind: str, text: str) -> None:
        super().note(kind, text)
        self.spool.note(kind, text)


def require_same_code(plan: Plan) -> None:
    """Refuse to train with other code than the plan was made with.

    The code of plug-ins is not checked here, since each run's specification holds their digests.
    """
    if plan.code != code_digest():
        raise SpecError(
            f"{plan.folder}: planned with other code ({plan.code}, here {code_digest()}); install "
            "the same recollect on every node, or submit to a new folder"
        )


def work_on_pack(
    plan: Plan,
    index: int,
    device: torch.device,
    *,
    job: str | None = None,
    retry_failed: bool = False,
    stop: Callable[[], int] = never,
    listen: Callable[[Event], None] = ignore,
) -> PackOutcome:
    """Train the runs of a pack that are left. Mixers from outside are tried first, as by `run`.

    A nonzero exit code from `stop` makes the attempt save and raise Stopped.
    """
    require_same_code(plan)
    planned = plan.read_pack(index)
    runs = {run.run_id: RunSpec.from_json(run.spec) for run in planned}
    history = read_history(plan.folder, index, runs, retry_failed, plan.key)
    left = [run for run in planned if run.run_id not in history.results]
    if not left:
        return PackOutcome("complete", 0)
    require_mixers([runs[run.run_id] for run in left], device)
    attempt = next_attempt(plan.folder, index, job or job_name())
    place = describe_place(device)
    spool = Spool(plan.folder, index, attempt, {"plan_id": plan.plan_id, **place})
    why = "failed"
    try:
        with tempfile.TemporaryDirectory(prefix="recollect-pack-") as scratch:
            trial = _Trial(plan, index, attempt, spool, history, left, Path(scratch))
            failures = trial.train(device, stop, listen)
        why = "complete"
        return PackOutcome(why, len(left), failures)
    except Stopped as stopped:
        if stopped.exit_code != SUPERSEDED:
            why = "stopped"
            text = f"pack {index} stopped; its next attempt goes on from the checkpoint"
            raise Stopped(text, stopped.exit_code) from None
        why = "superseded"
        return PackOutcome(why, 0)
    finally:
        # A full disk takes no last record either; the spool then ends without one.
        try:
            spool.end(why)
        except ResourceError:
            if why != "failed":
                raise


@dataclass(frozen=True)
class _Trial:
    """One attempt with its inputs and folders."""

    plan: Plan
    index: int
    attempt: Attempt
    spool: Spool
    history: PackHistory
    left: Sequence[PlannedRun]
    scratch: Path

    def train(
        self, device: torch.device, stop: Callable[[], int], listen: Callable[[Event], None]
    ) -> tuple[str, ...]:
        """Train until the pack is complete; return the reason for each failed run."""
        checkpoints = checkpoint_folder(self.plan.folder, self.index) / self.attempt.name
        make_folder(checkpoints)
        with SpoolingStore.create(self.scratch) as store:
            store.spool, store.place = (
                self.spool,
                {"code": self.plan.code, **describe_place(device)},
            )
            store.key = self.plan.key
            store.plan(self.left, self.plan.name, self.plan.source)
            KeepPolicy.parse("none", 0).remember(store)
            self._inherit(store, checkpoints)
            if self.history.is_hopeless:
                self._fail(store, self.history.tried[0])

            listen(TrainingStarted(tuple(store.rows()), 1))

            def tell(event: Event) -> None:
                if isinstance(event, PackStarted):
                    self.spool.trying(run.run_id for run in event.runs)
                listen(event)

            replaced = _StopIfReplaced(self.plan.folder, self.index, self.attempt, stop)
            most = self.history.most_together(len(self.left))
            with Worker(
                store,
                self.scratch,
                device,
                tell,
                replaced.code,
                checkpoints=checkpoints,
                allow_drift=True,  # the scheduler chooses the node; the rows record differences
            ) as worker:
                worker.work(Selection(pack_size=most))
            rows = store.rows()
        shutil.rmtree(checkpoints, ignore_errors=True)
        return tuple(row.failure or "" for row in rows if row.status == "failed")

    def _inherit(self, store: SpoolingStore, checkpoints: Path) -> None:
        """Take over checkpoints and points of earlier attempts; the spool repeats the points."""
        for problem in self.history.problems:
            store.note("history", problem)
        for path in self.history.checkpoints:
            shutil.copyfile(path, checkpoints / path.name)
        wanted = {run.run_id for run in self.left}
        points = [
            (run_id, point)
            for run_id, curve in self.history.inherited.items()
            if run_id in wanted
            for point in curve
        ]
        if points:
            claims = store.claim({run_id for run_id, _ in points}, this_process(), LEASE_S)
            store.record(claims, points)
            store.release(claims)

    def _fail(self, store: Store, run_id: str) -> None:
        claims = store.claim([run_id], this_process(), LEASE_S)
        failure = f"lost: {self.history.lost} attempts in a row ended without progress"
        store.finish(
            Result(run_id, attempt, "failed", steps=0, wall_s=0.0, failure=failure)
            for run_id, attempt in claims.items()
        )


class _StopIfReplaced:
    """A stop function that also stops when a later attempt has begun.

    In that case the scheduler believed that this attempt was dead.
    """

    def __init__(self, folder: Path, pack: int, attempt: Attempt, stop: Callable[[], int]):
        self._folder, self._pack, self._attempt, self._stop = folder, pack, attempt, stop
        self._looked, self._replaced = time.monotonic(), False

    def code(self) -> int:
        now = time.monotonic()
        if now - self._looked >= LOOK_EVERY_S:
            self._looked = now
            numbers = [other.number for other in attempts(self._folder, self._pack)]
            self._replaced = max(numbers, default=0) > self._attempt.number
        return self._stop() or (SUPERSEDED if self._replaced else 0)
