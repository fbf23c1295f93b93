"""All queries of a results database; nothing in this module changes it.

A row that this program cannot have written is left out of the answer and named in `problems`, so
one bad row does not affect the others.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from recollect.errors import notice_damage
from recollect.rows import STATUSES, Evaluation, RunRow, Status
from recollect.store.database import Database
from recollect.store.reading.checksums import verify
from recollect.store.reading.values import (
    BadRowError,
    evaluation,
    moment,
    name_list,
    run_id,
    run_row,
    shown,
    text,
    whole_or_none,
)
from recollect.store.records import Note, StoredSweep, Todo
from recollect.store.schema import POINT_COLUMNS, RUN_COLUMNS, SUMS, columns, rows_query

T = TypeVar("T")


class Reader(Database):
    """The queries of a store."""

    def leave_out(self, run_id: str, why: str) -> None:
        """Exclude a run from all later answers: its row is readable but must not be used."""
        self._left_out.add(run_id)
        self._problem(f"run {run_id}", why)

    def counts(self) -> dict[Status, int]:
        """Number of runs in each status, from one snapshot; their sum is the number of runs."""
        # Counted from the rows: the index may be damaged while the rows are intact.
        found = dict(self._read("SELECT status, count(*) FROM runs NOT INDEXED GROUP BY status"))
        for status in found.keys() - set(STATUSES):
            self._problem(f"{found[status]} runs", f"status {shown(status)} is none there is")
        return {status: found.get(status, 0) for status in STATUSES}

    def rows(self, numbers: Iterable[int] | None = None) -> list[RunRow]:
        """Every run, or those with these numbers, with the last point of its curve.

        Runs are numbered and sorted in the order of planning.
        """
        which, values = "", []
        if numbers is not None:
            which = "WHERE r.rowid IN (SELECT value FROM json_each(?))"
            values = [json.dumps(list(numbers))]
        found = self._read(rows_query(self.version, which), *values)
        return self._sound("run", found, self._row)

    def unfinished(self) -> dict[int, tuple[Any, Status]]:
        """Id and status of each run that has not ended, by its number in the order of planning.

        The number of a run that was taken back may be given to another one.
        """
        found = self._read(
            "SELECT rowid, run_id, status FROM runs WHERE status IN ('todo', 'running')"
        )
        return {number: (run, status) for number, run, status in found}

    def curve(self, run_id: str) -> list[Evaluation]:
        names = columns(POINT_COLUMNS, self.version)
        found = self._read(
            f"SELECT run_id, {names} FROM evaluations WHERE run_id = ? ORDER BY step", run_id
        )
        older = self._older(run_id)
        return self._sound("curve of run", found, lambda row: _point(row, older))

    def curves(self) -> dict[str, list[Evaluation]]:
        """The curve of every run that has one."""
        curves: dict[str, list[Evaluation]] = {}
        names = columns(POINT_COLUMNS, self.version)
        found = self._read(f"SELECT run_id, {names} FROM evaluations ORDER BY run_id, step")
        older = self._older()
        for run, point in self._sound(
            "curve of run", found, lambda row: (run_id(row[0]), _point(row, older))
        ):
            curves.setdefault(run, []).append(point)
        return curves

    def planned_ids(self) -> set[str]:
        """Ids of all runs that are part of a sweep."""
        found = self._read("SELECT DISTINCT run_id FROM planned")
        return set(self._sound("planned run", found, lambda row: run_id(row[0])))

    def unsummed(self) -> int:
        """Number of runs without a checksum, stored by a version that had none."""
        if self.version < SUMS["checksum"]:
            return sum(self.counts().values())
        found: int = self._read("SELECT count(*) FROM sums WHERE checksum IS NULL")[0][0]
        return found

    def _row(self, values: tuple[Any, ...]) -> RunRow:
        """Decode one row of `rows_query`."""
        run, rest = values[: len(RUN_COLUMNS)], values[len(RUN_COLUMNS) :]
        (stored, is_older), last = rest[: len(SUMS)], rest[len(SUMS) :]
        has_sums = self.version >= SUMS["checksum"]
        verify(run, stored, is_older=bool(is_older) or not has_sums)
        older = None if not has_sums else {run[0]} if is_older else set()
        point = None if last[0] is None else _point((run[0], *last), older)
        row = run_row(run, point)
        # If the last point is lost, the point before it would be taken for the result.
        if row.status == "done" and point and row.steps and point.step < row.steps:
            raise BadRowError(f"its curve ends at step {point.step}, its training at {row.steps}")
        return row

    def _older(self, *run_ids: str) -> set[Any] | None:
        """Runs, of the given ones or of all, whose points may lack a checksum; None: any run."""
        if self.version < SUMS["checksum"]:
            return None
        # Looked up by id: with a full scan, reading one curve would take longer in a larger sweep.
        which = "AND run_id IN (SELECT value FROM json_each(?))" if run_ids else ""
        values = [json.dumps(run_ids)] if run_ids else []
        found = self._read(f"SELECT run_id FROM sums WHERE is_older {which}", *values)
        return {run for (run,) in found}

    def todo(self, run_ids: Iterable[str] | None = None) -> list[Todo]:
        """Runs that may be claimed, of the given ones or of all, in the order of planning."""
        which, values = "status = 'todo'", []
        if run_ids is not None:
            which = "+status = 'todo' AND run_id IN (SELECT value FROM json_each(?))"
            values = [json.dumps(list(run_ids))]
        found = self._read(
            f"SELECT run_id, spec, pack_limit, attempt FROM runs WHERE {which} ORDER BY rowid",
            *values,
        )
        return self._sound("run", found, _todo)

    def sweeps(self) -> list[StoredSweep]:
        planned: dict[Any, list[Any]] = {}
        for sweep, run in self._read("SELECT sweep_id, run_id FROM planned ORDER BY 1, 2"):
            planned.setdefault(sweep, []).append(run)
        found = self._read("SELECT name, source, created, sweep_id FROM sweeps ORDER BY sweep_id")
        return self._sound("sweep", found, lambda row: _sweep(row, planned.get(row[3], ())))

    def span(self) -> tuple[float | None, float | None]:
        """Start of the first run and end of the last finished one, in seconds since 1970.

        None if no run has started, or finished, yet.
        """
        found = self._read("SELECT run_id, started, finished FROM runs")
        moments = self._sound("run", found, lambda row: [_moment_or_none(at) for at in row[1:]])
        started = [start for start, _ in moments if start is not None]
        finished = [end for _, end in moments if end is not None]
        return min(started, default=None), max(finished, default=None)

    def times(self) -> dict[str, tuple[float | None, float | None]]:
        """By id of each finished run: when it began and ended, in seconds since 1970."""
        found = self._read("SELECT run_id, started, finished FROM runs WHERE finished IS NOT NULL")
        moments = self._sound("run", found, lambda row: (row[0], *map(_moment_or_none, row[1:])))
        return {run_id: (began, ended) for run_id, began, ended in moments}

    def notes(self) -> list[Note]:
        found = self._read("SELECT kind, time, text FROM notes ORDER BY rowid")
        return self._sound("note", found, _note)

    def meta(self, key: str) -> str | None:
        return self._setting(key, text)

    def names(self, key: str) -> list[str]:
        """A list of names that is stored under this key; empty if there is none."""
        return self._setting(key, name_list) or []

    def _setting(self, key: str, decode: Callable[[str, Any], T]) -> T | None:
        found = self._read("SELECT key, value FROM meta WHERE key = ?", key)
        values = self._sound("setting", found, lambda row: decode("value", row[1]))
        return values[0] if values else None

    def check(self) -> list[str]:
        """Problems of the file, one line each; empty if there are none."""
        problems = [text for (text,) in self._read("PRAGMA integrity_check") if text != "ok"]
        if self._log_missing:
            problems.append(
                f"{self.path.name}-wal was removed by something else: what was committed last may "
                "be missing"
            )
        if self.lost_commits:
            problems.append(self.lost_commits)
        orphans = self._read("PRAGMA foreign_key_check")
        return problems + [
            f"{table}: row {row} belongs to no {parent}" for table, row, parent, _ in orphans
        ]

    def _sound(
        self,
        what: str,
        found: Iterable[tuple[Any, ...]],
        decode: Callable[[tuple[Any, ...]], T],
    ) -> list[T]:
        """Decode the rows and leave out bad ones; the first column of a row names it."""
        decoded: list[T] = []
        for row in found:
            if row[0] in self._left_out:
                continue
            try:
                decoded.append(decode(row))
            except BadRowError as error:
                self._problem(f"{what} {_name(row[0])}", str(error))
        return decoded

    def _problem(self, where: str, what: str) -> None:
        # One problem per place, however often that place is read.
        if where not in self._problems:
            self._problems[where] = f"{where}: {what}; left out"
            notice_damage(f"{self.path.parent}: {self._problems[where]}")


def _name(value: Any) -> str:
    if value is None:
        return "without a name"
    return value if type(value) is str and value.isalnum() and len(value) <= 64 else shown(value)


def _point(row: tuple[Any, ...], older: set[Any] | None) -> Evaluation:
    """Decode a point from the run's id and POINT_COLUMNS.

    `older`: runs whose points may lack a checksum, or None for any run.
    """
    verify(row[:-1], row[-1], is_older=older is None or row[0] in older)
    return evaluation(row[1:-1])


def _todo(row: tuple[Any, ...]) -> Todo:
    run, spec, limit, attempt = row
    return Todo(
        run_id(run),
        text("spec", spec),
        whole_or_none("pack_limit", limit),
        whole_or_none("attempt", attempt) or 0,
    )


def _sweep(row: tuple[Any, ...], planned: Iterable[Any]) -> StoredSweep:
    name, source, created, _ = row
    return StoredSweep(
        text("name", name),
        text("source", source),
        moment("created", created),
        tuple(map(run_id, planned)),
    )


def _note(row: tuple[Any, ...]) -> Note:
    kind, time, remark = row
    return Note(moment("time", time), text("kind", kind), text("text", remark))


def _moment_or_none(value: Any) -> float | None:
    return None if value is None else moment("started or finished", value)
