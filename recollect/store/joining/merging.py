"""Copy the results of other folders into one: `recollect merge INTO FROM...`.

Ids are made from content, so runs of FROM and INTO with the same id are the same run. Everything
that INTO lacks is copied: sweeps and how they are trained, planned runs, and results with their
curves. A result of INTO is never changed: an equal result in FROM is skipped, a different one is
reported; and a sweep that INTO has is trained as before. A run that trained or failed in FROM
without a result is todo in INTO, where it may still be trained. Checkpoints and kept weights are
not copied.

A damaged row costs that row alone, in FROM and in INTO, and is named (`notice_damage`): a run whose
row must not be used is not copied, and one that lacks a part of its curve is copied as todo. So a
damaged folder is joined with a copy of it in a new one. A file that fails SQLite's own check is
refused as a whole, because rows may be missing from what is read of it.

Each FROM is copied in one transaction: if the process is killed, all of it has been copied or
nothing. Merging again does not change results that were copied before.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.errors import SpecError, StoreError, command_text, notice_damage
from recollect.rows import Evaluation, RunRow
from recollect.store.checking.runs import gap_in_curve, leave_out_wrong
from recollect.store.joining.agreement import conflict_text, has_same_result
from recollect.store.joining.folders import find_stores
from recollect.store.reading.values import STOPS, number, point
from recollect.store.schema import SWEEP_LISTS
from recollect.store.store import Store

_OWNER = "merge"  # owns a run only inside a transaction


@dataclass(frozen=True)
class Merged:
    """Numbers of runs and results merged from one folder."""

    folder: Path
    runs: int  # all runs of the folder
    new: int  # runs that INTO did not have
    results: int  # results copied
    equal: int  # results that both have and that are equal
    held: int  # results not copied because a living process trains the run in INTO
    damaged: int  # runs of which nothing or no result was copied, because one of the two is damaged
    conflicts: tuple[str, ...]  # one line per pair of different results


def merge(into: Path, others: Sequence[Path]) -> list[Merged]:
    """Copy the content of the stores of `others` into the store of `into`, created if missing."""
    stores = [store for store in find_stores(others) if store.resolve() != into.resolve()]
    if not stores:
        raise SpecError(f"nothing to merge into {into}: give the folders of other results")
    for store in stores:  # before anything is written
        with _Joined.open(store, read_only=True) as source:
            if problems := source.check():
                raise StoreError(
                    f"{store}: damaged ({problems[0]}); nothing was merged\n"
                    f"save its readable rows with `{command_text('export', store, '--salvage')}`"
                )
    with _Target.create(into) as target:
        target.reclaim()
        leave_out_wrong(target)
        merged = []
        for store in stores:
            with _Joined.open(store, read_only=True) as source:
                leave_out_wrong(source)
                merged.append(target.take_over(source, store))
        return merged


class _Joined(Store):
    def run_ids(self) -> set[Any]:
        """Ids of all runs, including those whose rows must not be used."""
        return {run_id for (run_id,) in self._read("SELECT run_id FROM runs")}

    def is_whole(self, row: RunRow, curve: Sequence[Evaluation]) -> bool:
        """Whether a finished run has all of its curve; if not, its damage is noticed."""
        if f"curve of run {row.run_id}" in self._problems:
            return False
        gap = gap_in_curve(row, curve)
        if gap:
            notice_damage(f"{self.path.parent}: {gap}; left out")
        return not gap


class _Target(_Joined):
    def take_over(self, source: _Joined, folder: Path) -> Merged:
        """Copy everything that is new from one store, in one transaction."""
        ids = source.run_ids()  # before the rows: other processes may plan more
        rows, curves, times = source.rows(), source.curves(), source.times()
        with self._transaction() as connection:
            mine = {row.run_id: row for row in self.rows()}
            lost = self.run_ids() - mine.keys()
            self._plan_all(connection, rows, source)
            taken, equal, held, damaged = 0, 0, 0, len(ids - {row.run_id for row in rows})
            conflicts = []
            for row in rows:
                own = mine.get(row.run_id)
                if not row.has_result:
                    continue
                curve = curves.get(row.run_id, [])
                if not source.is_whole(row, curve) or row.run_id in lost:
                    damaged += 1
                elif own is not None and own.has_result:
                    own_curve = self.curve(row.run_id)
                    if not self.is_whole(own, own_curve):
                        damaged += 1
                    elif has_same_result(own, own_curve, row, curve):
                        equal += 1
                    else:
                        conflicts.append(conflict_text(own, self.path.parent, row, folder))
                elif own is not None and own.status == "running":
                    held += 1
                else:
                    self._take_result(connection, row, curve, times[row.run_id])
                    taken += 1
            new = sum(row.run_id not in mine.keys() | lost for row in rows)
            if new or taken:
                what = f"{_count(new, 'new run')} and {_count(taken, 'result')}"
                self._note("merge", f"{what} from {folder}")
            return Merged(folder, len(rows), new, taken, equal, held, damaged, tuple(conflicts))

    def _plan_all(
        self, connection: sqlite3.Connection, rows: Iterable[RunRow], source: Store
    ) -> None:
        connection.executemany(
            "INSERT INTO runs (run_id, spec, score_name, chance) VALUES (?, ?, ?, ?) ON CONFLICT "
            "DO NOTHING",
            [(row.run_id, _text(row.spec), row.score_name, number(row.chance)) for row in rows],
        )
        self._take_over_requests(connection, source)
        for sweep in source.sweeps():
            connection.execute(
                "INSERT INTO sweeps (name, source, created) VALUES (?, ?, ?) ON CONFLICT DO "
                "NOTHING",
                [sweep.name, sweep.source, sweep.created],
            )
            connection.executemany(
                "INSERT INTO planned SELECT sweep_id, run_id FROM sweeps, runs WHERE name = ? AND "
                "source = ? AND run_id = ? ON CONFLICT DO NOTHING",
                [(sweep.name, sweep.source, run_id) for run_id in sweep.run_ids],
            )

    def _take_over_requests(self, connection: sqlite3.Connection, source: Store) -> None:
        """Copy how the sweeps that are new here are trained."""
        new = {sweep.name for sweep in source.sweeps()} - {sweep.name for sweep in self.sweeps()}
        for key in SWEEP_LISTS:
            theirs, own = (set(store.names(key)) for store in (source, self))
            if theirs & new:
                connection.execute(
                    "INSERT OR REPLACE INTO meta VALUES (?, ?)",
                    [key, json.dumps(sorted(own | theirs & new))],
                )

    def _take_result(
        self,
        connection: sqlite3.Connection,
        row: RunRow,
        curve: Sequence[Evaluation],
        times: tuple[float | None, float | None],
    ) -> None:
        """Store a result by the same transitions as a worker: the triggers apply to a merge too."""
        started, finished = times
        connection.execute(
            "UPDATE runs SET status = 'todo', failure = NULL, finished = NULL WHERE run_id = ? AND "
            "status = 'failed'",
            [row.run_id],
        )
        connection.execute(
            "UPDATE runs SET status = 'running', owner = ?, attempt = max(attempt + 1, ?) WHERE "
            "run_id = ? AND status = 'todo'",
            [_OWNER, row.attempt, row.run_id],
        )
        connection.execute("DELETE FROM evaluations WHERE run_id = ?", [row.run_id])
        self._put(point(row.run_id, at) for at in curve)
        connection.execute(
            "UPDATE runs SET status = ?, owner = NULL, renewed = NULL, lease_until = NULL, started "
            "= ?, finished = ?, steps = ?, wall_s = ?, stopped_early = ?, diverged_step = ?, "
            "parameters = ?, state_size = ?, device = ?, threads = ?, versions = ?, drift = ? "
            "WHERE run_id = ? AND status = 'running'",
            (
                *(row.status, started, finished, row.steps),
                None if row.wall_s is None else number(row.wall_s),
                *(STOPS.index(row.stopped_early), row.diverged_step),
                *(row.parameters, row.state_size, row.device, row.threads),
                *(json.dumps(row.versions), "\n".join(row.drift) or None, row.run_id),
            ),
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _text(spec: dict[str, Any]) -> str:
    """A specification in the form of `RunSpec.canonical_json`."""
    return json.dumps(spec, sort_keys=True, separators=(",", ":"), allow_nan=False)
