"""The one way from a sweep to its results: plan it, train what is todo, tell a listener. The
command line and `recollect.run` call it.

Nothing here loads torch before a function needs it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.errors import SpecError
from recollect.mixers.fla.options import FlaSpec
from recollect.rows import Status
from recollect.running.budget import Budget
from recollect.running.events import (
    Event,
    FailedReopened,
    SweepPlanned,
    TrainingStarted,
    ignore,
)
from recollect.running.signals import never
from recollect.spec.run import RunSpec
from recollect.spec.sweep import Sweep
from recollect.store import PlanCounts, PlannedRun, Store
from recollect.store.keep_policy import KeepPolicy

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Outcome:
    """How a folder stands after training."""

    counts: dict[Status, int]
    failures: tuple[str, ...]  # why, of each run that failed
    processes: int  # that trained
    is_spent: bool  # there was a budget, and it ended before everything was trained


def train(
    folder: Path,
    sweep: Sweep | None = None,
    *,
    device: str = "auto",
    keep: str | None = None,
    snapshots: int | None = None,
    budget: Budget | None = None,
    workers: int = 1,
    plugins: Sequence[Path] = (),
    retry_failed: bool = False,
    stop: Callable[[], int] = never,
    listen: Callable[[Event], None] = ignore,
) -> Outcome:
    """Train what is todo in `folder`, after `sweep` was planned there if one is given.

    `keep`, `snapshots`: whose weights are kept, and at how many steps on the way (see
    store/keep_policy.py); without both, as the folder began. `workers`: processes that train; 0:
    as many as suit the cores and the memory. `plugins`: files that the processes load as this one
    did. `stop` is asked between steps: an exit code saves and raises Stopped. What is wrong with
    any of them is refused before something is written.
    """
    from recollect.running.processes import WorkerProcesses, count_processes, require_processes
    from recollect.running.spending import spend
    from recollect.running.worker import Worker

    policy = _policy(keep, snapshots)
    target = choose_device(device)
    require_processes(workers, target)
    if sweep is not None:
        require_mixers(sweep.runs, target)
        if policy is not None:
            policy.require(sweep.runs)
    with Store.open(folder) if sweep is None else Store.create(folder) as store:
        if sweep is not None:
            added = plan(store, sweep)
            known = sum(added.known.values())
            listen(SweepPlanned(sweep.name, len(sweep.runs), added.new, known))
        if policy is not None:
            policy.remember(store)
        if retry_failed:
            listen(FailedReopened(len(store.reopen_failed())))
        processes = 1 if budget else count_processes(workers, store, target)
        listen(TrainingStarted(tuple(store.rows()), processes))
        is_spent = False
        if processes > 1:
            WorkerProcesses(folder, target, processes, plugins, stop, listen).work(store)
        elif budget is not None:
            worker = Worker(store, folder, target, listen, budget.stop(stop))
            is_spent = not spend(worker, budget)
        else:
            Worker(store, folder, target, listen, stop).work()
        rows = store.rows()
        failures = tuple(row.failure or "" for row in rows if row.status == "failed")
        return Outcome(store.counts(), failures, processes, is_spent)


def _policy(keep: str | None, snapshots: int | None) -> KeepPolicy | None:
    if keep is snapshots is None:
        return None
    return KeepPolicy.parse(keep or "best", snapshots or 0)


def plan(store: Store, sweep: Sweep) -> PlanCounts:
    """Put the runs of a sweep into a store; those it knows already stay as they are."""
    runs = [
        PlannedRun(run.run_id, run.canonical_json(), run.task.score_name, run.task.chance)
        for run in sweep.runs
    ]
    return store.plan(runs, sweep.name, sweep.source)


def require_mixers(runs: Iterable[RunSpec], device: "torch.device") -> None:
    """Refuse mixers whose code is not here or does not run on this device."""
    layers = {
        kind.model_dump_json(): kind
        for run in runs
        for kind in run.model.mixer.kinds()
        if isinstance(kind, FlaSpec)
    }
    if layers:
        from recollect.mixers.fla.mixer import layer_class

        for layer in layers.values():
            layer_class(layer, device)


def choose_device(name: str) -> "torch.device":
    """`auto` is a GPU if there is one; a device that is not here is refused."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    known = [
        "cpu",
        *(["cuda"] if torch.cuda.is_available() else []),
        *(f"cuda:{i}" for i in range(torch.cuda.device_count())),
    ]
    if name not in known:
        raise SpecError(
            f"device = {name!r}: not here; use auto or one of {', '.join(known)} "
            "(`recollect doctor` says why)"
        )
    return torch.device(name)
