"""Training in stages: after each stage the rows are read again and decide the next one.

Where packs train side by side, a stage does not wait for its last run: while others still train,
the next rounds of the searches that their results allow join them, and what is left of sweeps
trained in full, so that the device stays full.

Within a time budget one shape of a stage is trained at a time, or as many shapes as fill a GPU
together. Their number of runs follows from measured speed: a pack begins only with as many members
as should end in time. If no run should, one begins anyway, is saved in a checkpoint when the time
is over, and continues in the next call. A step, an evaluation or a preparation under way is not
interrupted, so a call may exceed its budget by that much.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from recollect.errors import Stopped
from recollect.rows import RunRow, as_running
from recollect.running.budget import SPENT, Budget
from recollect.running.pack_queue import Selection
from recollect.running.planning.cost import evaluation_stretch
from recollect.running.planning.forecast import ended_runs
from recollect.running.planning.memory import FULL
from recollect.running.planning.order import NextStage
from recollect.running.planning.priority import Stage
from recollect.running.planning.speed import SpeedModel, WorkLeft, guessed_s
from recollect.running.shapes import Shapes
from recollect.running.worker import Worker, no_more
from recollect.spec.run import RunSpec
from recollect.spec.sweep import group_by_shape
from recollect.store.reading.followed import FollowedRows

# Share of the time left that is planned with: checkpoints and first steps are not measured.
SAFETY = 0.85
MEASURE_STEPS = 30  # approximate cost of measuring the speed of a shape, in run-steps
MEASURE_SHARE = 0.1  # the largest share of the time left for measuring one shape
FASTEST_S = 1e-9  # of a run-step whose speed is unknown
JOINING = ("round", "rest")  # stages whose runs may join others: no other stage depends on them


def train_in_order(
    worker: Worker, choose: NextStage | None, budget: Budget | None, joins: bool = True
) -> None:
    """Train stage after stage, within a budget if given; train everything without `choose`.

    `joins`: later rounds may join a stage in training, so `choose` must not wait.
    """
    if choose is None:
        worker.work()
    elif budget is None:
        train_stages(worker, choose, joins)
    else:
        spend(worker, budget, choose, joins)


def train_stages(worker: Worker, choose: NextStage, joins: bool = True) -> None:
    """Train stage after stage until none is left."""
    store, chosen = worker.store, frozenset[str]()
    followed = FollowedRows(store)

    def join() -> Selection | None:
        nonlocal chosen
        stage = joining_stage(followed.read(), chosen, choose)
        if stage is None:
            return None
        chosen |= frozenset(stage.run_ids)
        return Selection(chosen)

    store.reclaim()
    while (stage := choose(store.rows())) is not None:
        chosen = frozenset(stage.run_ids)
        worker.work(Selection(chosen), join if joins else no_more)
        store.reclaim()


def joining_stage(
    rows: Sequence[RunRow], chosen: frozenset[str], choose: NextStage
) -> Stage | None:
    """The next rounds of searches and what is left of sweeps trained in full, given that the
    `chosen` runs will be trained first.

    A cell gets its next round only after the last one has ended completely, so that a search trains
    the same runs whatever else trains. None if there are no such runs, or others come before them.
    """
    waiting = {row.run_id for row in rows if row.status == "todo" and row.run_id in chosen}
    stage = choose(as_running(rows, waiting))
    return stage if stage is not None and stage.name in JOINING else None


def spend(worker: Worker, budget: Budget, choose: NextStage, joins: bool = True) -> bool:
    """Train stage after stage until the budget is spent; return whether every stage was trained.

    The worker's stop function must be one that ends with the budget (`Budget.stop`).
    """
    spending = _Spending(worker, budget, choose, joins)
    try:
        while budget.left_s > 0:
            worker.store.reclaim()
            rows = worker.store.rows()
            stage = choose(rows)
            if stage is None:
                return True
            selection = spending.select(rows, stage)
            if selection is None:
                continue
            worker.work(selection, spending.join if joins else no_more)
            spending.learn(worker.store.rows())
        return choose(worker.store.rows()) is None
    except Stopped as stopped:
        if stopped.exit_code != SPENT:
            raise
        return False


class _Spending:
    """What a call with a budget knows: specifications, speeds, and the runs chosen so far."""

    def __init__(self, worker: Worker, budget: Budget, choose: NextStage, joins: bool):
        self._worker, self._budget, self._choose, self._joins = worker, budget, choose, joins
        self._speeds = SpeedModel(guessed_s(worker.device))
        self._specs: dict[str, RunSpec] = {}
        self._chosen: frozenset[str] = frozenset()  # of the stage in training
        self._learnt: set[str] = set()  # runs whose times are in the speed model
        self._rows = FollowedRows(worker.store)
        self._work = WorkLeft(self._speeds)  # knows how early runs end
        if worker.side_by_side:  # what joins is not measured
            for run, steps, seconds in ended_runs(self._rows.read(), worker.device):
                self._work.note(run, steps)
                self._speeds.learn(run, steps, seconds)

    def select(self, rows: Sequence[RunRow], stage: Stage) -> Selection | None:
        """The runs of a stage to begin with; None if all of them are left to other processes."""
        runs = self._parse(rows, stage)
        if not runs:
            return None
        if stage.name == "begun":
            selection = Selection(frozenset(stage.run_ids))
        else:
            # Runs that join later need not be measured now.
            fills = self._worker.side_by_side and not (self._joins and stage.name == "round")
            selection = select_affordable(
                *(runs, self._worker.shapes, self._speeds, SAFETY * self._budget.left_s),
                wanted=FULL if fills else 1,
                ranks=stage.ranks,
            )
        self._chosen = selection.run_ids or frozenset()
        return replace(selection, later=frozenset(stage.run_ids))

    def join(self) -> Selection | None:
        """The selection with the runs that should end in time beside those chosen before, if as
        many end early as have so far.
        """
        rows = self._rows.read()
        self.learn(rows)
        waiting = [row for row in rows if row.status == "todo" and row.run_id in self._chosen]
        places = FULL - self._worker.training - len(waiting)
        stage = joining_stage(rows, self._chosen, self._choose) if places > 0 else None
        if stage is None:
            return None
        left_s = SAFETY * self._budget.left_s
        left_s -= sum(self._run_s(self._specs[row.run_id]) for row in waiting)
        for run, run_steps in self._worker.left_in_training:
            left_s -= self._seconds(run, run_steps)
        joining: list[RunSpec] = []
        for same in order_shapes(self._parse(rows, stage), stage.ranks, self._run_s):
            # All runs of a shape, also if there are fewer places: each pack is to be large.
            ending = same[: min(FULL, max(0, int(left_s / self._run_s(same[0]))))]
            joining += ending
            left_s -= len(ending) * self._run_s(same[0])
            if len(joining) >= places:
                break
        if not joining:
            return None
        self._chosen |= frozenset(run.run_id for run in joining)
        return Selection(self._chosen, later=frozenset(stage.run_ids))

    def learn(self, rows: Iterable[RunRow]) -> None:
        """Add the times of chosen runs that have ended to the speed model."""
        ended = [row for row in rows if row.run_id in self._chosen and row.is_finished]
        new = [row for row in ended if row.run_id not in self._learnt]
        self._learnt |= {row.run_id for row in new}
        for row in new:
            if row.status == "done" and row.steps:
                self._work.note(self._specs[row.run_id], row.steps)
        learn_speeds(self._speeds, new, [self._specs[row.run_id] for row in new])

    def _parse(self, rows: Iterable[RunRow], stage: Stage) -> Sequence[RunSpec]:
        """The runs of a stage that this process may train."""
        new = set(stage.run_ids) - set(self._specs)
        self._specs |= {row.run_id: RunSpec.parse(row.spec) for row in rows if row.run_id in new}
        return self._worker.queue.home.prefer([self._specs[run_id] for run_id in stage.run_ids])

    def _run_s(self, run: RunSpec) -> float:
        return self._seconds(run, run.train.steps)

    def _seconds(self, run: RunSpec, run_steps: int) -> float:
        """Seconds of so many run-steps of a shape, given that such runs end early."""
        return self._work.share(run) * run_seconds(self._speeds, run, run_steps)


def run_seconds(speeds: SpeedModel, run: RunSpec, run_steps: int) -> float:
    """Seconds of so many run-steps of a shape; never 0."""
    return run_steps * (speeds.seconds(run) or FASTEST_S)


def order_shapes(
    runs: Sequence[RunSpec], ranks: Mapping[str, int], run_s: Callable[[RunSpec], float]
) -> list[tuple[RunSpec, ...]]:
    """The runs of each shape: those of the lowest rank first, then the cheapest."""

    def place(same: Sequence[RunSpec]) -> tuple[int, float]:
        return min(ranks.get(run.run_id, 0) for run in same), run_s(same[0])

    return sorted(group_by_shape(runs), key=place)


def select_affordable(
    runs: Sequence[RunSpec],
    shapes: Shapes,
    speeds: SpeedModel,
    left_s: float,
    wanted: int = 1,
    ranks: Mapping[str, int] = MappingProxyType({}),
) -> Selection:
    """Select as many runs of the first shape as should end in time.

    Runs of the next shapes are added until there are `wanted` runs. Shapes come in the order of
    their `ranks`, by run id, and the cheapest first among equals. Pack size and speed are measured
    if there is time for it; otherwise the runs train one by one. If no run should end in time, the
    first is selected.
    """

    def run_s(run: RunSpec) -> float:
        return run_seconds(speeds, run, run.train.steps)

    groups = order_shapes(runs, ranks, run_s)
    chosen: list[RunSpec] = []
    for same in groups:
        run = same[0]
        is_short = run_seconds(speeds, run, MEASURE_STEPS) > MEASURE_SHARE * left_s
        if is_short:
            ending = same[: int(left_s / run_s(run))]
            if ending and not chosen:
                return Selection(frozenset(run.run_id for run in ending), pack_size=1)
            continue
        if speeds.is_known(run):
            size = shapes.pack_size(same)
        else:
            size, step_s = shapes.measure(same)
            if step_s:
                speeds.measure(run, evaluation_stretch(run) * step_s / size)
        packs = int(left_s / (size * run_s(run)))
        ending = same[: packs * size or int(left_s / run_s(run))]
        chosen += ending
        left_s -= len(ending) * run_s(run)
        if len(chosen) >= wanted:
            break
    if not chosen:
        return Selection(frozenset([groups[0][0].run_id]), pack_size=1)
    return Selection(frozenset(run.run_id for run in chosen))


def learn_speeds(speeds: SpeedModel, rows: Iterable[RunRow], runs: Iterable[RunSpec]) -> None:
    """Add the times of the runs that were just trained to the speed model."""
    trained = {run.run_id: run for run in runs}
    for row in rows:
        if row.run_id in trained and row.wall_s and row.steps:
            speeds.learn(trained[row.run_id], row.steps, row.wall_s)
