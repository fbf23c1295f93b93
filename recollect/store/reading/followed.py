"""Rows of a store that is being trained, read again and again."""

from typing import Any

from recollect.rows import RunRow
from recollect.store.reading.reader import Reader


class ChangedRows:
    """The rows of a store that may have changed since the last look.

    A look reads only the runs in training and those whose status has changed, so its cost hardly
    grows with the size of the store. It misses a run that was begun and given back between two
    looks.
    """

    def __init__(self, store: Reader):
        self._store, self._unfinished = store, store.unfinished()
        self.gone: set[Any] = set()  # ids of runs that were taken back before the last look

    def read(self) -> list[RunRow]:
        before, self._unfinished = self._unfinished, self._store.unfinished()
        running = {number for number, (_, now) in self._unfinished.items() if now == "running"}
        changed = {number for number, _ in before.items() ^ self._unfinished.items()}
        rows = self._store.rows(running | changed)
        there = {row.run_id for row in rows}
        self.gone = {before[number][0] for number in changed & before.keys()} - there
        return rows


class FollowedRows:
    """All rows of a store; each look reads what may have changed."""

    def __init__(self, store: Reader):
        self._changed = ChangedRows(store)  # first, so that an end during the next line is seen
        self._rows = {row.run_id: row for row in store.rows()}

    def read(self) -> list[RunRow]:
        """Every row as it is now, in the order of planning."""
        self._rows |= {row.run_id: row for row in self._changed.read()}
        for run_id in self._changed.gone:
            self._rows.pop(run_id, None)
        return list(self._rows.values())
