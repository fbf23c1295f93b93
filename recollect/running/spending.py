"""Training in stages: after each stage the rows are read again and decide the next one.

Within a time budget one shape of a stage is trained at a time, or as many shapes as fill a GPU
together. Their number of runs follows from measured speed: a pack begins only with as many members
as should end in time. If not even one run should, one begins anyway, is saved in a checkpoint when
the time is over, and continues in the next call. A step, an evaluation or a preparation under way
is not interrupted, so a call may exceed its budget by that much.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from recollect.errors import Stopped
from recollect.rows import RunRow
from recollect.running.budget import SPENT, Budget
from recollect.running.pack_queue import Selection
from recollect.running.planning.cost import evaluation_stretch
from recollect.running.planning.memory import FULL
from recollect.running.planning.order import NextStage
from recollect.running.planning.speed import SpeedModel, guessed_s
from recollect.running.shapes import Shapes
from recollect.running.worker import Worker
from recollect.spec.run import RunSpec
from recollect.spec.sweep import group_by_shape

# Share of the time left that is planned with: checkpoints and first steps are not measured.
SAFETY = 0.85
MEASURE_STEPS = 30  # approximate cost of measuring the speed of a shape, in run-steps
MEASURE_SHARE = 0.1  # the largest share of the time left for measuring one shape


def train_in_order(worker: Worker, choose: NextStage | None, budget: Budget | None) -> None:
    """Train stage after stage, within a budget if given; train everything without `choose`."""
    if choose is None:
        worker.work()
    elif budget is None:
        train_stages(worker, choose)
    else:
        spend(worker, budget, choose)


def train_stages(worker: Worker, choose: NextStage) -> None:
    """Train stage after stage until none is left."""
    store = worker.store
    store.reclaim()
    while (stage := choose(store.rows())) is not None:
        worker.work(Selection(frozenset(stage.run_ids)))
        store.reclaim()


def spend(worker: Worker, budget: Budget, choose: NextStage) -> bool:
    """Train stage after stage until the budget is spent; return whether every stage was trained.

    The worker's stop function must be one that ends with the budget (`Budget.stop`).
    """
    store, speeds = worker.store, SpeedModel(guessed_s(worker.device))
    specs: dict[str, RunSpec] = {}
    try:
        while budget.left_s > 0:
            store.reclaim()
            rows = store.rows()
            stage = choose(rows)
            if stage is None:
                return True
            new = set(stage.run_ids) - set(specs)
            specs |= {row.run_id: RunSpec.parse(row.spec) for row in rows if row.run_id in new}
            runs = worker.queue.home.prefer([specs[run_id] for run_id in stage.run_ids])
            if not runs:
                continue
            if stage.name == "begun":
                selection = Selection(frozenset(stage.run_ids))
            else:
                selection = select_affordable(
                    *(runs, worker.shapes, speeds, SAFETY * budget.left_s),
                    wanted=FULL if worker.side_by_side else 1,
                )
            worker.work(replace(selection, later=frozenset(stage.run_ids)))
            trained = [run for run in runs if run.run_id in (selection.run_ids or ())]
            learn_speeds(speeds, store.rows(), trained)
        return choose(store.rows()) is None
    except Stopped as stopped:
        if stopped.exit_code != SPENT:
            raise
        return False


def select_affordable(
    runs: Sequence[RunSpec], shapes: Shapes, speeds: SpeedModel, left_s: float, wanted: int = 1
) -> Selection:
    """Select as many runs of the cheapest shape as should end in time, and at least one.

    Runs of the next cheapest shapes are added until there are `wanted` runs. Pack size and speed
    are measured if there is time for it; otherwise the runs train one by one.
    """

    def run_s(run: RunSpec) -> float:
        return run.train.steps * (speeds.seconds(run) or 0.0)

    chosen: list[RunSpec] = []
    for same in sorted(group_by_shape(runs), key=lambda group: run_s(group[0])):
        run = same[0]
        is_short = MEASURE_STEPS * (speeds.seconds(run) or 0.0) > MEASURE_SHARE * left_s
        if is_short and not chosen:
            ending = same[: max(1, int(left_s / run_s(run)))]
            return Selection(frozenset(run.run_id for run in ending), pack_size=1)
        if is_short:
            break
        if speeds.is_known(run):
            size = min(shapes.pack_size(same), len(same))
        else:
            size, step_s = shapes.measure(same)
            if step_s:
                speeds.measure(run, evaluation_stretch(run) * step_s / size)
        packs = int(left_s / (size * run_s(run)))
        ending = same[: packs * size or max(0 if chosen else 1, int(left_s / run_s(run)))]
        chosen += ending
        left_s -= len(ending) * run_s(run)
        if len(ending) < len(same) or len(chosen) >= wanted:
            break
    return Selection(frozenset(run.run_id for run in chosen))


def learn_speeds(speeds: SpeedModel, rows: Iterable[RunRow], runs: Iterable[RunSpec]) -> None:
    """Add the times of the runs that were just trained to the speed model."""
    trained = {run.run_id: run for run in runs}
    for row in rows:
        if row.run_id in trained and row.wall_s and row.steps:
            speeds.learn(trained[row.run_id], row.steps, row.wall_s)
