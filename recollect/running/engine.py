"""The single path from sweeps to results: plan the sweeps, train the todo runs, report events to a
listener. The command line and `recollect.run` both call it.

Nothing here loads torch before a function needs it.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.errors import SpecError, command_text
from recollect.rows import Status
from recollect.running.budget import Budget
from recollect.running.cluster.plan import is_planned
from recollect.running.events import (
    Event,
    FailedReopened,
    OthersFollow,
    Remark,
    SweepPlanned,
    TrainingStarted,
    ignore,
)
from recollect.running.listening import GuardedListener
from recollect.running.planning import order
from recollect.running.planning.priority import Stage
from recollect.running.processes.devices import choose_devices
from recollect.running.signals import never
from recollect.spec.run import RunSpec
from recollect.spec.sweep import Sweep, require_search
from recollect.store import PlanCounts, PlannedRun, Store
from recollect.store.checking.runs import leave_out_wrong
from recollect.store.joining.folders import require_own_store
from recollect.store.keep_policy import KeepPolicy
from recollect.store.schema import SEARCH_ENDED

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Outcome:
    """The state of a folder after training."""

    counts: dict[Status, int]
    failures: tuple[str, ...]  # the reason for each failed run
    processes: int  # number of processes that trained
    next_stage: Stage | None = None  # the first stage still to train of what was requested
    search: tuple[str, ...] = ()  # the progress of each search


def train(
    folder: Path,
    sweeps: Sequence[Sweep] = (),
    *,
    device: str = "auto",
    keep: str | None = None,
    snapshots: int | None = None,
    budget: Budget | None = None,
    search: str | None = None,
    workers: int = 1,
    plugins: Sequence[Path] = (),
    retry_failed: bool = False,
    allow_drift: bool = False,
    stop: Callable[[], int] = never,
    listen: Callable[[Event], None] = ignore,
) -> Outcome:
    """Plan `sweeps` in `folder`, then train all its todo runs: those of `sweeps` first, then the
    others in the order of planning.

    `device`: see processes/devices.py; each of several GPUs gets one process.
    `keep`, `snapshots`: the runs whose weights are kept, and the number of intermediate steps at
    which they are kept (see store/keep_policy.py). Without both, the folder's policy stays.
    `search`: how far to train the given sweeps, or all sweeps of the folder if none are given (see
    planning/order.py). If it is None, given sweeps follow their own `search`, or are trained in
    full if they have none; the other sweeps keep the search last requested for them. If neither is
    given, sweeps whose search has ended in an earlier call are trained in full.
    `workers`: processes that train on a CPU; 0 chooses a number that suits cores and memory.
    `plugins`: files that the processes load as this one did.
    `allow_drift`: continue runs that began under another environment, and record it in their rows.
    `stop` is called between steps: a nonzero exit code makes training save and raise Stopped.
    `listen` receives the events; if it raises, training saves, stops and raises that error.
    Invalid arguments are refused before anything is written.
    """
    from recollect.mixers.plugins.remembered import remember_plugins
    from recollect.mixers.plugins.runs import foreign_kinds, require_mixers, share_code
    from recollect.running.planning.forecast import step_seconds
    from recollect.running.planning.memory import FULL
    from recollect.running.processes.count import plan_processes, require_processes
    from recollect.running.processes.parent import WorkerProcesses
    from recollect.running.processes.stages import SharedStages
    from recollect.running.spending import train_in_order
    from recollect.running.worker import Worker

    if is_planned(folder):
        raise SpecError(
            f"{folder}: planned for many machines; train it with "
            f"`{command_text('submit', folder)}` or `{command_text('work', folder)}`, or give "
            "another --out"
        )
    if not sweeps:
        require_own_store(folder, "resume")
    policy = _policy(keep, snapshots)
    devices = choose_devices(device)
    target = devices[0]
    require_processes(workers, target)
    require_search(search, "--search ")
    runs = [run for sweep in sweeps for run in sweep.runs]
    require_mixers(runs, target)
    if policy is not None and sweeps:
        policy.require(runs)
    with (
        Store.create(folder) if sweeps else Store.open(folder) as store,
        GuardedListener(listen, stop) as guarded,
    ):
        listen, stop = guarded.hear, guarded.stop
        leave_out_wrong(store)
        _require_code(store, bool(sweeps), retry_failed, target)
        for sweep in sweeps:
            added = plan(store, sweep)
            known = sum(added.known.values())
            listen(SweepPlanned(sweep.name, len(sweep.runs), added.new, known))
            remember_plugins(store, foreign_kinds(sweep.runs))
        if store.lost_commits:
            listen(Remark(store.lost_commits))
        _remember_search(store, sweeps, search)
        if policy is not None:
            policy.remember(store)
        if retry_failed:
            listen(FailedReopened(len(store.reopen_failed())))
        workers, plugins = share_code(store, 0 if len(devices) > 1 else workers, plugins)
        searched = order.searched_sweeps(store)
        is_typed = len(devices) > 1 and workers == 1
        alone = "a mixer that was typed into a notebook" if is_typed else ""
        rows = store.rows()
        step_s = step_seconds(rows, target)
        team = plan_processes(devices, workers, store, step_s, alone)
        if team.reason:
            listen(Remark(team.reason))
        processes = len(team.shares)
        asked = order.asked_for(store, rows)
        given = {run.run_id for run in runs}
        others = asked.runs - given if sweeps else frozenset()
        if others:
            listen(OthersFollow(len(others), bool(others & asked.searched)))
        listen(TrainingStarted(tuple(rows), processes, step_s, asked.likely))
        first = [(sweep.name, frozenset(run.run_id for run in sweep.runs)) for sweep in sweeps]
        in_stages = budget is not None or bool(searched) or bool(others)
        wanted = FULL if target.type == "cuda" else 1
        choose = (
            order.order_of(store, budget is not None, listen, wanted, first) if in_stages else None
        )
        if processes > 1:
            WorkerProcesses(
                *(folder, team.shares, plugins, stop, listen, team.homes, allow_drift),
                stages=SharedStages(store, choose, budget) if choose else None,
            ).work(store)
        else:
            stops = budget.stop(stop) if budget else stop
            with Worker(store, folder, target, listen, stops, allow_drift=allow_drift) as worker:
                train_in_order(worker, choose, budget)
        store.reclaim()  # a process that died meanwhile does not train the runs it held
        rows = store.rows()
        left = order.order_of(store, budget is not None)(rows)
        outcome = Outcome(
            store.counts(),
            tuple(row.failure or "" for row in rows if row.status == "failed"),
            processes,
            left,
            order.search_texts(store, rows),
        )
        # Results of another process that still trains may require a further round.
        if searched and left is None and not outcome.counts["running"]:
            store.set_meta(SEARCH_ENDED, json.dumps(sorted(searched)))
        return outcome


def _policy(keep: str | None, snapshots: int | None) -> KeepPolicy | None:
    if keep is snapshots is None:
        return None
    return KeepPolicy.parse(keep or "best", snapshots or 0)


def _remember_search(store: Store, sweeps: Sequence[Sweep], search: str | None) -> None:
    """Store how the sweeps are trained from now on.

    What a search has left out is trained on request only: if its sweep is given without a search,
    or if the folder goes on when nothing else is left to train. A search that was interrupted, or
    that new results have opened again, goes on.
    """
    ended = set(store.names(SEARCH_ENDED))
    if sweeps:
        for sweep in sweeps:
            order.remember_search(store, [sweep.name], search or sweep.search)
        again = {sweep.name for sweep in sweeps}
    elif search is not None:
        again = {sweep.name for sweep in store.sweeps()}
        order.remember_search(store, again, search)
    else:
        is_open = bool(ended) and bool(order.asked_for(store, store.rows()).runs)
        again = set() if is_open else ended
        order.remember_search(store, again, None)
    if ended & again:
        store.set_meta(SEARCH_ENDED, json.dumps(sorted(ended - again)))


def plan(store: Store, sweep: Sweep) -> PlanCounts:
    """Put the runs of a sweep into a store; runs that are already there stay as they are."""
    runs = [
        PlannedRun(run.run_id, run.canonical_json(), run.task.score_name, run.task.chance)
        for run in sweep.runs
    ]
    return store.plan(runs, sweep.name, sweep.source)


def _require_code(
    store: Store, is_planning: bool, retry_failed: bool, device: "torch.device"
) -> None:
    """Refuse to continue if mixers of runs to train are not loaded or, unless new runs are planned,
    fail when tried. Nothing is written before.
    """
    from recollect.mixers.plugins.remembered import has_plugins, require_plugins
    from recollect.mixers.plugins.runs import require_mixers

    if not has_plugins(store):
        return
    specs = [json.loads(todo.spec) for todo in store.todo()]
    specs += [row.spec for row in store.rows() if retry_failed and row.status == "failed"]
    require_plugins(store, specs)
    if not is_planning:
        require_mixers([RunSpec.parse(spec) for spec in specs], device)
