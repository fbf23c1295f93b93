"""The packs of a plan that are still to be trained, and the tasks that hold them."""

from dataclasses import dataclass

from recollect.errors import ResourceError
from recollect.running.cluster.collect import Collected
from recollect.running.cluster.jobs import recorded_jobs
from recollect.running.cluster.plan import Plan
from recollect.running.cluster.slurm import TaskState, task_states


@dataclass(frozen=True)
class LeftPacks:
    """Packs that are not complete."""

    free: tuple[int, ...]  # packs that no task holds
    held: dict[int, TaskState]  # packs held by a task that waits or runs


def left_packs(plan: Plan, found: Collected, retry_failed: bool = False) -> LeftPacks:
    """Return the packs that are left; raise if the scheduler cannot report what its tasks hold."""
    states = task_states(recorded_jobs(plan.folder))
    if states is None:
        raise ResourceError(
            f"{plan.folder}: Slurm does not answer, so it is unknown which packs its jobs hold; "
            "try again when `squeue` works"
        )
    left = [
        pack.index for pack in found.packs if not pack.is_complete or (retry_failed and pack.failed)
    ]
    return LeftPacks(
        tuple(index for index in left if index not in states),
        {index: states[index] for index in left if index in states},
    )
