"""All rows of a store, read again and again while it is trained."""

from recollect.rows import RunRow
from recollect.store.reading.reader import Reader


class FollowedRows:
    """The rows of one store.

    A look reads only the runs in training and those whose status has changed since the last look,
    so its cost hardly grows with the size of the store. A run that was begun and given back between
    two looks keeps its old number of attempts.
    """

    def __init__(self, store: Reader):
        self._store = store
        self._unfinished = store.unfinished()  # read first: a later end is then seen as a change
        self._rows = {row.run_id: row for row in store.rows()}

    def read(self) -> list[RunRow]:
        """Every row as it is now, in the order of planning."""
        before, self._unfinished = self._unfinished, self._store.unfinished()
        running = {number for number, now in self._unfinished.items() if now == "running"}
        changed = {number for number, _ in before.items() ^ self._unfinished.items()}
        self._rows |= {row.run_id: row for row in self._store.rows(running | changed)}
        return list(self._rows.values())
