"""Everything that is asked of a results database; nothing here changes it.

A row that is not as this program writes it is left out of the answer and named in `problems`: one
bad row costs that row.
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
        """From now on this run is in no answer: its row is whole, but must not be used."""
        self._left_out.add(run_id)
        self._problem(f"run {run_id}", why)

    def counts(self) -> dict[Status, int]:
        """How many runs are in each status, at one moment; they add up to what was planned."""
        # Of the rows themselves: an index may be damaged without them.
        found = dict(self._read("SELECT status, count(*) FROM runs NOT INDEXED GROUP BY status"))
        for status in found.keys() - set(STATUSES):
            self._problem(f"{found[status]} runs", f"status {shown(status)} is none there is")
        return {status: found.get(status, 0) for status in STATUSES}

    def rows(self, numbers: Iterable[int] | None = None) -> list[RunRow]:
        """Every run, or those of these numbers, in the order of planning, with the last point of
        its curve.
        """
        which, values = "", []
        if numbers is not None:
            which = "WHERE r.rowid IN (SELECT value FROM json_each(?))"
            values = [json.dumps(list(numbers))]
        found = self._read(rows_query(self.version, which), *values)
        return self._sound("run", found, self._row)

    def unfinished(self) -> dict[int, Status]:
        """The numbers of the runs that have not ended: they count in the order of planning."""
        return dict(
            self._read("SELECT rowid, status FROM runs WHERE status IN ('todo', 'running')")
        )

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
        """Of all runs that are part of a sweep."""
        found = self._read("SELECT DISTINCT run_id FROM planned")
        return set(self._sound("planned run", found, lambda row: run_id(row[0])))

    def unsummed(self) -> int:
        """How many runs have no checksum yet: they are older."""
        if self.version < SUMS["checksum"]:
            return sum(self.counts().values())
        found: int = self._read("SELECT count(*) FROM sums WHERE checksum IS NULL")[0][0]
        return found

    def _row(self, values: tuple[Any, ...]) -> RunRow:
        """One line of `rows_query`."""
        run, rest = values[: len(RUN_COLUMNS)], values[len(RUN_COLUMNS) :]
        (stored, is_older), last = rest[: len(SUMS)], rest[len(SUMS) :]
        has_sums = self.version >= SUMS["checksum"]
        verify(run, stored, is_older=bool(is_older) or not has_sums)
        older = None if not has_sums else {run[0]} if is_older else set()
        point = None if last[0] is None else _point((run[0], *last), older)
        row = run_row(run, point)
        # Where the last point is lost, the one before it would pass for the result.
        if row.status == "done" and point and row.steps and point.step < row.steps:
            raise BadRowError(f"its curve ends at step {point.step}, its training at {row.steps}")
        return row

    def _older(self, *run_ids: str) -> set[Any] | None:
        """Runs, of these or of all, whose points may lack a checksum; None: any."""
        if self.version < SUMS["checksum"]:
            return None
        # By their ids: a walk over all would make a curve cost the more the larger the sweep.
        which = "AND run_id IN (SELECT value FROM json_each(?))" if run_ids else ""
        values = [json.dumps(run_ids)] if run_ids else []
        found = self._read(f"SELECT run_id FROM sums WHERE is_older {which}", *values)
        return {run for (run,) in found}

    def todo(self, run_ids: Iterable[str] | None = None) -> list[Todo]:
        """What may be claimed, of these runs or of all, in the order of planning."""
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
        """When the first run was started and the last one finished, in seconds since 1970;
        None before that.
        """
        found = self._read("SELECT run_id, started, finished FROM runs")
        moments = self._sound("run", found, lambda row: [_moment_or_none(at) for at in row[1:]])
        started = [start for start, _ in moments if start is not None]
        finished = [end for _, end in moments if end is not None]
        return min(started, default=None), max(finished, default=None)

    def notes(self) -> list[Note]:
        found = self._read("SELECT kind, time, text FROM notes ORDER BY rowid")
        return self._sound("note", found, _note)

    def meta(self, key: str) -> str | None:
        found = self._read("SELECT key, value FROM meta WHERE key = ?", key)
        values = self._sound("setting", found, lambda row: text("value", row[1]))
        return values[0] if values else None

    def check(self) -> list[str]:
        """What is wrong with the file, one line each; empty if nothing is."""
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
        """Those that are as they were written; a row's first column names it."""
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
        # One for each place, however often it is read.
        if where not in self._problems:
            self._problems[where] = f"{where}: {what}; left out"
            notice_damage(f"{self.path.parent}: {self._problems[where]}")


def _name(value: Any) -> str:
    if value is None:
        return "without a name"
    return value if type(value) is str and value.isalnum() and len(value) <= 64 else shown(value)


def _point(row: tuple[Any, ...], older: set[Any] | None) -> Evaluation:
    """From the run's id and POINT_COLUMNS; `older`: runs whose points may lack a checksum, None for
    any.
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
