"""Training within a budget of time: the stages of budget.py, one shape at a time, each sized by
measured speed.

A pack is begun only with as many members as should end in time. If not even one run does, one is
begun and left at a checkpoint when the time is over, and the next call goes on with it. A step, an
evaluation or a preparation under way is not cut off, so a call may last that much longer.
"""

import time
from collections.abc import Callable, Sequence

from recollect.errors import Stopped
from recollect.rows import RunRow
from recollect.running.planning import planner
from recollect.running.planning.forecast import guessed_s
from recollect.running.planning.priority import next_stage
from recollect.running.worker import Worker
from recollect.spec.run import RunSpec
from recollect.spec.sweep import pack

SPENT = -1  # what the worker is stopped with; never an exit code
# of the time that is left may be planned: evaluations, checkpoints and the first steps are not
# measured
SAFETY = 0.85
MEASURE_STEPS = 30  # about as many run-steps does measuring the speed of a shape take
MEASURE_SHARE = 0.1  # of the time that is left may go into measuring one shape


def spend(worker: Worker, deadline: float, clock: Callable[[], float] = time.monotonic) -> bool:
    """Train stage after stage until the clock shows `deadline`; whether everything that was todo
    has been trained before.
    """
    asked = worker.stop
    worker.stop = lambda: asked() or (SPENT if clock() >= deadline else 0)
    speeds, specs = Speeds(worker), dict[str, RunSpec]()
    try:
        while clock() < deadline:
            worker.store.reclaim()
            rows = worker.store.rows()
            stage = next_stage(rows)
            if stage is None:
                return True
            new = set(stage.run_ids) - set(specs)
            specs |= {row.run_id: RunSpec.parse(row.spec) for row in rows if row.run_id in new}
            runs = [specs[run_id] for run_id in stage.run_ids]
            chosen = (
                runs
                if stage.name == "begun"
                else _affordable(runs, speeds, SAFETY * (deadline - clock()))
            )
            worker.chosen = frozenset(run.run_id for run in chosen)
            worker.work()
            speeds.learn(worker.store.rows(), chosen)
        return next_stage(worker.store.rows()) is None
    except Stopped:
        if asked():
            raise
        return False
    finally:
        worker.stop, worker.chosen = asked, None


class Speeds:
    """Seconds of a run-step by shape: measured in this call, else scaled by operations from what
    was, else guessed.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.measured: dict[str, float] = {}
        self._per_operation: dict[str, float] = {}  # by mixer
        self._operations: dict[str, int] = {}

    def estimate(self, run: RunSpec) -> float:
        """Of one run-step, without measuring."""
        if run.shape_id in self.measured:
            return self.measured[run.shape_id]
        known = self._per_operation
        slowest = max(known.values(), default=guessed_s(self.worker.device))
        return self._count(run) * known.get(run.model.mixer.name, slowest)

    def together(self, runs: Sequence[RunSpec], left_s: float) -> int:
        """How many of these runs of one shape train together; measures that, and their speed, if
        there is time for it.
        """
        if MEASURE_STEPS * self.estimate(runs[0]) > MEASURE_SHARE * left_s:
            self.worker.pack_size = 1
            return 1
        self.worker.pack_size = None
        size, seconds = self.worker.measure(runs)
        if seconds:
            self._note(runs[0], seconds / size)
        return size

    def learn(self, rows: Sequence[RunRow], runs: Sequence[RunSpec]) -> None:
        """What the runs that were just trained took."""
        trained = {run.run_id: run for run in runs}
        for row in rows:
            if row.run_id in trained and row.wall_s and row.steps:
                self._note(trained[row.run_id], row.wall_s / row.steps)

    def _note(self, run: RunSpec, seconds: float) -> None:
        self.measured[run.shape_id] = seconds
        self._per_operation[run.model.mixer.name] = seconds / self._count(run)

    def _count(self, run: RunSpec) -> int:
        if run.shape_id not in self._operations:
            self._operations[run.shape_id] = planner.operations(run) or planner.cost(run).operations
        return self._operations[run.shape_id]


def _affordable(runs: Sequence[RunSpec], speeds: Speeds, left_s: float) -> Sequence[RunSpec]:
    """The runs of the cheapest shape, as many as should end in time, and at least one."""
    same = min(pack(runs), key=lambda group: group[0].train.steps * speeds.estimate(group[0]))
    size = speeds.together(same, left_s)
    run_s = same[0].train.steps * speeds.estimate(same[0])
    packs = int(left_s / (size * run_s))
    return same[: packs * size or max(1, int(left_s / run_s))]
