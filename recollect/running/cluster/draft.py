"""Cuts a sweep into packs; each task of a cluster trains one pack.

A pack has runs of one shape, so its task compiles once and trains them as one population. It is as
large as suits a GPU and as the time limit allows; the scheduler balances the load.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from recollect.running.cluster.plan import DraftPack, DraftPlan, draft_plan
from recollect.running.planning.cost import operations
from recollect.running.planning.speed import SpeedModel, guessed_s
from recollect.spec.run import RunSpec
from recollect.spec.sweep import Sweep, group_by_shape
from recollect.store.records import PlannedRun
from recollect.training.environment import code_digest, versions

MOST_RUNS = 64  # more members of a population gain nothing on a GPU (docs/speed.md)
# With several packs per device, a slow or lost device delays the others little. But a population of
# few members makes fewer run-steps per second.
PACKS_EACH, FEWEST_RUNS = 3, 8
# Share of the time limit that is planned for: a forecast is a guess, and a task that is not done in
# time has to be requeued.
LIMIT_SHARE = 0.7


def draft_packs(
    runs: Sequence[RunSpec],
    device: str = "auto",
    limit_s: float | None = None,
    most_runs: int | None = None,
    at_once: int | None = None,
) -> list[DraftPack]:
    """Cut runs into packs, the longest first, so that the packs started last end soon.

    `device`: of the tasks; this machine need not have it. `limit_s`: time limit of a task.
    `most_runs`: the largest pack. `at_once`: number of tasks that may run together, each of which
    should get several packs.
    """
    if at_once and most_runs is None:
        most_runs = max(FEWEST_RUNS, min(MOST_RUNS, len(runs) // (PACKS_EACH * at_once)))
    speeds = SpeedModel(guessed_s(torch.device("cpu" if device == "cpu" else "cuda")), operations)
    packs: list[DraftPack] = []
    for shape in group_by_shape(runs):
        seconds = (speeds.seconds(shape[0]) or 0.0) * shape[0].train.steps
        fitting = int(LIMIT_SHARE * limit_s / seconds) if limit_s and seconds else len(shape)
        most = max(1, min(most_runs or MOST_RUNS, fitting, len(shape)))
        label = f"{shape[0].model.mixer.name} width={shape[0].model.width}"
        for part in _split_evenly(shape, most):
            planned = tuple(_planned(run) for run in part)
            packs.append(DraftPack(planned, label, seconds * len(part)))
    return sorted(packs, key=lambda pack: -pack.seconds)


def draft_sweep(
    folder: Path, sweep: Sweep, packs: Iterable[DraftPack], plugins: Iterable[Path] = ()
) -> DraftPlan:
    """Draft the plan of a sweep that was cut into packs."""
    return draft_plan(
        folder,
        packs,
        name=sweep.name,
        source=sweep.source,
        code=code_digest(),
        versions=versions(),
        plugins=[str(path.absolute()) for path in plugins],
    )


def _split_evenly(runs: Sequence[RunSpec], most: int) -> Iterable[Sequence[RunSpec]]:
    parts = -(-len(runs) // most)
    for part in range(parts):
        yield runs[len(runs) * part // parts : len(runs) * (part + 1) // parts]


def _planned(run: RunSpec) -> PlannedRun:
    return PlannedRun(run.run_id, run.canonical_json(), run.task.score_name, run.task.chance)
