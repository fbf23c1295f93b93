"""Runs that have a name instead of a specification, for the tests of the store alone."""

import json

from recollect.rows import Evaluation
from recollect.store import PlannedRun, Result

RUNS = ("a", "b", "c", "d", "e")


def planned(*run_ids: str) -> list[PlannedRun]:
    return [PlannedRun(run_id, json.dumps({"name": run_id}), "accuracy", 0.1) for run_id in run_ids]


def at(step: int, value: float = 0.5) -> Evaluation:
    return Evaluation(step, value, value, value, value, {"test": {"accuracy": value}})


def done(run_id: str, attempt: int, **more: object) -> Result:
    return Result(run_id, attempt, "done", 10, 1.0, **more)
