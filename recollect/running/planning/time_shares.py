"""Divides the time of a process among the packs that it trains side by side.

Packs advance at their own speeds, and a GPU computes several of them at once, so no pack has a time
of its own. The time between two points is charged in proportion to the operations of the steps made
between them.
"""

from recollect.running.planning.speed import count_operations
from recollect.spec.run import RunSpec


class TimeShares:
    """The work of all packs of a process so far."""

    def __init__(self) -> None:
        self.made = 0.0  # operations of all steps
        self._operations: dict[str, int] = {}  # of a run-step, by shape

    def add_step(self, run: RunSpec, members: int) -> float:
        """Add one step of this many runs of a shape; return its operations."""
        if run.shape_id not in self._operations:
            self._operations[run.shape_id] = count_operations(run) or 1
        operations = float(members * self._operations[run.shape_id])
        self.made += operations
        return operations


class PackTime:
    """The share of one pack, since it was last charged."""

    def __init__(self, shares: TimeShares):
        self._shares, self._own, self._made_before = shares, 0.0, shares.made

    def restart(self) -> None:
        self._own, self._made_before = 0.0, self._shares.made

    def add_step(self, run: RunSpec, members: int) -> None:
        self._own += self._shares.add_step(run, members)

    def charge(self, seconds: float) -> float:
        """The part of the last `seconds` that is this pack's; begins a new interval."""
        made = self._shares.made - self._made_before
        own = seconds * self._own / made if made else 0.0
        self.restart()
        return own
