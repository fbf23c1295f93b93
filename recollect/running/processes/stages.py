"""What several processes train next where it is decided in stages, by a search or within a budget:
the parent decides for all of them, and whoever has nothing to do asks it.

A search trains the same runs whatever the number of processes: what was given to them and waits
counts as running, so a cell has its next round only after all of the last one. Within a budget,
where time decides anyway, every answer is that of the moment.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from recollect.rows import RunRow
from recollect.running.budget import Budget
from recollect.running.planning.order import NextStage
from recollect.running.planning.priority import Stage
from recollect.store import Store


@dataclass(frozen=True)
class Offer:
    """A stage for whoever is free. One who comes back to the same runs, none of which anybody has
    begun since, can do nothing with them.
    """

    stage: Stage
    attempts: frozenset[tuple[str, int]]  # of each run


class SharedStages:
    """The stages of one store for several processes."""

    def __init__(self, store: Store, choose: NextStage, budget: Budget | None = None):
        self.budget = budget
        self._store, self._choose = store, choose
        self._given: set[str] = set()  # runs, in a search

    def next(self) -> Offer | None:
        """What somebody who is free may train now; None: nothing, before something ends."""
        self._store.reclaim()
        rows = self._store.rows()
        waiting = [row.run_id for row in rows if row.status == "todo" and row.run_id in self._given]
        stage = self._choose(_as_running(rows, set(waiting)))
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


def _as_running(rows: Sequence[RunRow], run_ids: Collection[str]) -> list[RunRow]:
    return [replace(row, status="running") if row.run_id in run_ids else row for row in rows]
