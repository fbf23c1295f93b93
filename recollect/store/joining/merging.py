"""Copy the results of other folders into one: `recollect merge INTO FROM...`.

Ids are made from content, so runs of FROM and INTO with the same id are the same run. Everything
that INTO lacks is copied: sweeps, planned runs, and results with their curves. A result of INTO is
never changed: an equal result in FROM is skipped, a different one is reported. A run that trained
or failed in FROM without a result is todo in INTO, where it may still be trained. Checkpoints and
kept weights are not copied.

Each FROM is copied in one transaction: if the process is killed, all of it has been copied or
nothing. Merging again does not change results that were copied before.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.errors import SpecError, StoreError, command_text
from recollect.rows import Evaluation, RunRow
from recollect.store.joining.agreement import conflict_text, has_same_result
from recollect.store.joining.folders import find_stores
from recollect.store.reading.values import STOPS, number, point
from recollect.store.store import Store

# Values of a run that are not part of RunRow.
_TIMES = "SELECT run_id, started, finished FROM runs WHERE finished IS NOT NULL"
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
    conflicts: tuple[str, ...]  # one line per pair of different results


def merge(into: Path, others: Sequence[Path]) -> list[Merged]:
    """Copy the content of the stores of `others` into the store of `into`, created if missing."""
    stores = [store for store in find_stores(others) if store.resolve() != into.resolve()]
    if not stores:
        raise SpecError(f"nothing to merge into {into}: give the folders of other results")
    for store in stores:  # before anything is written
        with _Source.open(store, read_only=True) as source:
            if problems := source.check() or source.bad_rows():
                raise StoreError(
                    f"{store}: damaged ({problems[0]}); nothing was merged\n"
                    f"save its readable rows with `{command_text('export', store, '--salvage')}`"
                )
    with _Target.create(into) as target:
        target.reclaim()
        merged = []
        for store in stores:
            with _Source.open(store, read_only=True) as source:
                merged.append(target.take_over(source, store))
        return merged


class _Source(Store):
    def bad_rows(self) -> tuple[str, ...]:
        """The rows that reading leaves out: a run must not be copied without part of its curve."""
        self.rows(), self.curves(), self.sweeps()
        return self.problems

    def times(self) -> dict[str, tuple[float | None, float | None]]:
        """Start and end time of each finished run."""
        return {run_id: (started, ended) for run_id, started, ended in self._read(_TIMES)}


class _Target(Store):
    def take_over(self, source: _Source, folder: Path) -> Merged:
        """Copy everything that is new from one store, in one transaction."""
        rows, curves, times = source.rows(), source.curves(), source.times()
        with self._transaction() as connection:
            mine = {row.run_id: row for row in self.rows()}
            self._refuse_others(rows, mine, folder)
            self._plan_all(connection, rows, source)
            taken, equal, held = 0, 0, 0
            conflicts = []
            for row in rows:
                own = mine.get(row.run_id)
                if not row.has_result:
                    continue
                curve = curves.get(row.run_id, [])
                if own is not None and own.has_result:
                    if has_same_result(own, self.curve(row.run_id), row, curve):
                        equal += 1
                    else:
                        conflicts.append(conflict_text(own, self.path.parent, row, folder))
                elif own is not None and own.status == "running":
                    held += 1
                else:
                    self._take_result(connection, row, curve, times[row.run_id])
                    taken += 1
            new = sum(row.run_id not in mine for row in rows)
            if new or taken:
                self._note("merge", f"{new} new runs and {taken} results from {folder}")
            return Merged(folder, len(rows), new, taken, equal, held, tuple(conflicts))

    def _refuse_others(self, rows: Iterable[RunRow], mine: dict[str, RunRow], folder: Path) -> None:
        """Refuse a store in which an id has another specification: it was changed by hand."""
        for row in rows:
            if row.run_id in mine and mine[row.run_id].spec != row.spec:
                raise StoreError(
                    f"run {row.run_id} has another specification in {folder} than in "
                    f"{self.path.parent}; nothing of {folder} was merged"
                )

    def _plan_all(
        self, connection: sqlite3.Connection, rows: Iterable[RunRow], source: Store
    ) -> None:
        connection.executemany(
            "INSERT INTO runs (run_id, spec, score_name, chance) VALUES (?, ?, ?, ?) ON CONFLICT "
            "DO NOTHING",
            [(row.run_id, _text(row.spec), row.score_name, number(row.chance)) for row in rows],
        )
        for sweep in source.sweeps():
            connection.execute(
                "INSERT INTO sweeps (name, source, created) VALUES (?, ?, ?) ON CONFLICT DO "
                "NOTHING",
                [sweep.name, sweep.source, sweep.created],
            )
            connection.executemany(
                "INSERT INTO planned SELECT sweep_id, ? FROM sweeps WHERE name = ? AND source = ? "
                "ON CONFLICT DO NOTHING",
                [(run_id, sweep.name, sweep.source) for run_id in sweep.run_ids],
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


def _text(spec: dict[str, Any]) -> str:
    """A specification in the form of `RunSpec.canonical_json`."""
    return json.dumps(spec, sort_keys=True, separators=(",", ":"), allow_nan=False)
