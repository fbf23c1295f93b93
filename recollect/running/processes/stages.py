"""Stages for several processes, in a search or within a budget: the parent chooses for all of them,
and an idle process asks it for the next stage.

A search trains the same runs whatever the number of processes: runs that were handed out and still
wait count as running, so a cell gets its next round only after the last one has ended completely.
Within a budget the runs depend on time anyway, so each choice uses the rows as they are then.
"""

from dataclasses import dataclass, replace

from recollect.rows import as_running
from recollect.running.budget import Budget
from recollect.running.planning.order import NextStage
from recollect.running.planning.priority import Stage
from recollect.store import Store


@dataclass(frozen=True)
class Offer:
    """A stage for an idle process.

    If a process asks again and gets an equal offer, no process has begun any of its runs meanwhile,
    so this process cannot train them.
    """

    stage: Stage
    attempts: frozenset[tuple[str, int]]  # (run id, attempt) of each run


class SharedStages:
    """The stages of one store for several processes."""

    def __init__(self, store: Store, choose: NextStage, budget: Budget | None = None):
        self.budget = budget
        self._store, self._choose = store, choose
        self._given: set[str] = set()  # runs handed out, in a search

    def next(self) -> Offer | None:
        """The next stage for an idle process, or None if it has to wait for running work to end."""
        self._store.reclaim()
        rows = self._store.rows()
        waiting = [row.run_id for row in rows if row.status == "todo" and row.run_id in self._given]
        stage = self._choose(as_running(rows, set(waiting)))
        if stage is None and not waiting:
            return None
        stage = stage or Stage("rest", ())
        if self.budget is None:
            self._given |= set(stage.run_ids)
        attempts = {row.run_id: row.attempt for row in rows}
        run_ids = (*waiting, *stage.run_ids)
        return Offer(
            replace(stage, run_ids=run_ids),
            frozenset((run_id, attempts[run_id]) for run_id in run_ids),
        )
