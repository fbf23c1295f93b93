"""Build tasks: `build_task` turns a task's specification into batches.

Each task has its own file with one pure function `rows`.
"""

from typing import Any

import torch

from recollect.spec.run import RunSpec
from recollect.tasks import copying, mqar, ngram_lookup, recall
from recollect.tasks.base import Task
from recollect.tasks.feed import Feed, RowSource
from recollect.tasks.options.base import TaskSpec

SOURCES: dict[str, RowSource[Any]] = {
    "mqar": mqar.rows,
    "recall": recall.rows,
    "copying": copying.rows,
    "ngram_lookup": ngram_lookup.rows,
}


def build_task(
    spec: TaskSpec,
    data_seed: int,
    batch: int,
    device: torch.device | str,
    keep_last: bool = False,
) -> Task:
    """Build the task of a specification, with `batch` rows per step, on a device.

    With `keep_last` the rows at the end of an epoch that fill no batch make one more step.
    """
    return Feed(spec, SOURCES[spec.name], data_seed, batch, device, keep_last)


def task_of(run: RunSpec, device: torch.device | str) -> Task:
    """The task that a run trains on and is evaluated with."""
    train = run.train
    return build_task(run.task, run.data_seed, train.batch, device, train.last_batch == "keep")
