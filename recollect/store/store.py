"""The results database of one folder: planned runs, the processes that train them, and results.

Only the package `recollect.store` contains SQL.

A run goes todo -> running (attempt, owner, lease) -> done | diverged | failed. Every transition is
one transaction guarded by (status, attempt). A worker that was taken for dead and comes back
therefore changes nothing; its claims are returned as refused.

Leases use the machine's steady clock (time.monotonic, which all processes share since boot), so
neither setting the wall clock nor suspending the machine expires a lease. A lease of another
machine, boot or time namespace is observed on the clock of this process (ownership.py).

A store may be shared between threads. A forked child must open its own.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from recollect.errors import SpecError, StoreError
from recollect.rows import STATUSES, Evaluation, Status
from recollect.store.ownership import Lease, host, is_dead, shares_clock
from recollect.store.reading.checksums import checksum
from recollect.store.reading.reader import Reader
from recollect.store.reading.values import STOPS, BadRowError, number, point, table
from recollect.store.records import Claims, PlanCounts, PlannedRun, Result, UnplanCounts
from recollect.store.schema import PUT_POINT, SWEEP_LISTS

MAX_LOST = 5  # attempts in a row without progress before a run counts as failed


class Store(Reader):
    """One open database; `with Store.create(folder) as store`.

    `clock` times leases and `wall` dates rows. Tests replace both.
    """

    # ---- planning ----

    def plan(self, runs: Iterable[PlannedRun], name: str, source: str) -> PlanCounts:
        """Add the runs that are not stored yet, as part of the sweep `name` with the text `source`.

        Runs that are already stored stay unchanged.
        """
        wanted = {run.run_id: run for run in runs}
        with self._transaction() as connection:
            ids = json.dumps(list(wanted))
            present = (
                "SELECT run_id, spec, status FROM runs WHERE run_id IN (SELECT value FROM "
                "json_each(?))"
            )
            known: dict[Status, int] = dict.fromkeys(STATUSES, 0)
            for run_id, spec, status in connection.execute(present, [ids]).fetchall():
                known[status] = known.get(status, 0) + 1
                if not _same(spec, wanted[run_id].spec):
                    raise StoreError(
                        f"{self.path}: run {run_id} is stored with another specification; use a "
                        "new --out folder"
                    )
            connection.executemany(
                "INSERT INTO runs (run_id, spec, score_name, chance) VALUES (?, ?, ?, ?) ON "
                "CONFLICT DO NOTHING",
                [
                    (run.run_id, run.spec, run.score_name, number(run.chance))
                    for run in wanted.values()
                ],
            )
            connection.execute(
                "INSERT INTO sweeps (name, source, created) VALUES (?, ?, ?) ON CONFLICT DO "
                "NOTHING",
                [name, source, self.wall()],
            )
            connection.execute(
                "INSERT INTO planned SELECT sweep_id, value FROM sweeps, json_each(?) WHERE name = "
                "? AND source = ? ON CONFLICT DO NOTHING",
                [ids, name, source],
            )
        self._put_log_into_file()
        return PlanCounts(len(wanted) - sum(known.values()), known)

    def unplan(self, name: str, run_ids: Iterable[str]) -> UnplanCounts:
        """Take those of these runs that nobody has begun out of the sweeps of this name, and out of
        the store if no other sweep has them. A sweep without runs goes, too.
        """
        chosen = (
            "run_id IN (SELECT value FROM json_each(?)) AND run_id IN (SELECT run_id FROM planned "
            "JOIN sweeps USING (sweep_id) WHERE name = ?)"
        )
        waiting = f"SELECT run_id FROM runs WHERE status = 'todo' AND attempt = 0 AND {chosen}"
        with self._transaction() as connection:
            (busy,) = connection.execute(
                "SELECT count(*) FROM runs WHERE status = 'running'"
            ).fetchone()
            if busy:
                raise SpecError(
                    f"{self.path.parent}: a process trains {busy} of its runs; runs are taken back "
                    "while none does:\nstop it (Ctrl-C keeps what is trained), and resume it later"
                )
            asked = [json.dumps(list(run_ids)), name]
            (begun,) = connection.execute(
                f"SELECT count(*) FROM runs WHERE (status <> 'todo' OR attempt > 0) AND {chosen}",
                asked,
            ).fetchone()
            taken = json.dumps([run_id for (run_id,) in connection.execute(waiting, asked)])
            connection.execute(
                "DELETE FROM planned WHERE run_id IN (SELECT value FROM json_each(?)) AND sweep_id "
                "IN (SELECT sweep_id FROM sweeps WHERE name = ?)",
                [taken, name],
            )
            gone = connection.execute(
                "DELETE FROM runs WHERE run_id IN (SELECT value FROM json_each(?)) AND run_id NOT "
                "IN (SELECT run_id FROM planned)",
                [taken],
            ).rowcount
            connection.execute(
                "DELETE FROM sweeps WHERE name = ? AND sweep_id NOT IN (SELECT sweep_id FROM "
                "planned)",
                [name],
            )
            if not connection.execute("SELECT 1 FROM sweeps WHERE name = ?", [name]).fetchone():
                self._forget_sweep(connection, name)
            count = len(json.loads(taken))
            if count:
                runs, began = ("run", "it began") if count == 1 else ("runs", "they began")
                self._note("unplan", f"{count} {runs} of {name} taken back before {began}")
            return UnplanCounts(gone, count - gone, begun)

    def _forget_sweep(self, connection: sqlite3.Connection, name: str) -> None:
        """Take a sweep out of the lists of how sweeps are trained."""
        for key in SWEEP_LISTS:
            names = self.names(key)
            if name in names:
                names.remove(name)
                connection.execute(
                    "UPDATE meta SET value = ? WHERE key = ?", [json.dumps(names), key]
                )

    def reopen_failed(self) -> list[str]:
        """Set all failed runs to todo and return their ids.

        This is the only transition out of a finished state.
        """
        with self._transaction() as connection:
            reopened = connection.execute(
                "UPDATE runs SET status = 'todo', lost = 0, failure = NULL, finished = NULL, steps "
                "= NULL, wall_s = NULL WHERE status = 'failed' RETURNING run_id"
            ).fetchall()
        return [run_id for (run_id,) in reopened]

    # ---- holding ----

    def claim(self, run_ids: Iterable[str], owner: str, lease_s: float) -> dict[str, int]:
        """Claim for `owner` all of `run_ids` that are todo.

        Returns the attempt number of each claimed run; later calls prove the claim with it.
        """
        now = self.clock()
        with self._transaction() as connection:
            claims = dict(
                connection.execute(
                    "UPDATE runs SET status = 'running', attempt = attempt + 1, owner = ?, renewed "
                    "= ?, lease_until = ?, progressed = 0, started = coalesce(started, ?) WHERE "
                    "+status = 'todo' AND run_id IN (SELECT value FROM json_each(?)) RETURNING "
                    "run_id, attempt",
                    [owner, now, now + lease_s, self.wall(), json.dumps(list(run_ids))],
                ).fetchall()
            )
            self._change(claims, "pack_size = :size", size=len(claims))
        return claims

    def heartbeat(self, claims: Claims, lease_s: float) -> set[str]:
        """Renew the leases; return the claims that are no longer held."""
        now = self.clock()
        with self._transaction():
            held = self._change(
                claims, "renewed = :now, lease_until = :until", now=now, until=now + lease_s
            )
        return set(claims) - held

    def release(self, claims: Claims, pack_limit: int | None = None) -> set[str]:
        """Set the claimed runs back to todo; return the claims that are no longer held.

        Used after a signal, or to train the runs in smaller packs (`pack_limit`). The attempt does
        not count as lost.
        """
        with self._transaction():
            change = (
                "status = 'todo', owner = NULL, renewed = NULL, lease_until = NULL, pack_limit = "
                "coalesce(:limit, pack_limit)"
            )
            return set(claims) - self._change(claims, change, limit=pack_limit)

    def reclaim(self, dead: Callable[[str], bool] = is_dead) -> list[str]:
        """Take back the runs whose lease has expired or whose owner is dead; return their ids.

        A lease on another clock has expired once this process has observed it for its whole length
        without seeing a renewal.

        A run taken back without progress may have been killed because memory ran out, so it next
        trains in a pack of half the size. It is set to failed after MAX_LOST such attempts in a
        row, if it trained alone in the last of them.
        """
        if not self._stale(dead):
            return []
        given_up = "NOT progressed AND pack_size = 1 AND lost + 1 >= :most"
        with self._transaction():
            stale = self._stale(dead)
            taken = self._change(
                {run_id: attempt for run_id, attempt, _ in stale},
                "lost = lost + (NOT progressed), pack_limit = CASE WHEN progressed THEN pack_limit "
                f"ELSE max(1, pack_size / 2) END, status = CASE WHEN {given_up} THEN 'failed' ELSE "
                f"'todo' END, failure = CASE WHEN {given_up} THEN :failure END, finished = CASE "
                f"WHEN {given_up} THEN :now END, owner = NULL, renewed = NULL, lease_until = NULL",
                most=MAX_LOST,
                now=self.wall(),
                failure=f"lost: {MAX_LOST} attempts in a row ended without progress",
            )
            for owner in sorted({owner for _, _, owner in stale}):
                left = sum(owner == other for _, _, other in stale)
                self._note(
                    "lost",
                    f"{left} {'run was' if left == 1 else 'runs were'} left by a process on "
                    f"{host(owner) or 'an unknown machine'} that died or was cut off: each goes on "
                    "from its last checkpoint, or from its start",
                )
        return [run_id for run_id, _, _ in stale if run_id in taken]

    def _stale(self, dead: Callable[[str], bool]) -> list[tuple[str, int, str]]:
        now = self.clock()
        running = self._read(
            "SELECT run_id, attempt, owner, renewed, lease_until FROM runs WHERE status = 'running'"
        )
        owners = {row[2]: str(row[2]) for row in running}
        verdict = {owner: dead(name) for owner, name in owners.items()}
        foreign = {owner for owner, name in owners.items() if not shares_clock(name)}
        self._foreign.forget_others([row[0] for row in running if row[2] in foreign])
        return [
            row[:3]
            for row in running
            if verdict[row[2]]
            or (
                self._foreign.is_over(row[0], Lease(*row[1:]), now)
                if row[2] in foreign
                else not _holds(row[3], row[4], now)
            )
        ]

    def undecided(self) -> dict[str, Lease]:
        """Runs leased on another clock for which `reclaim` cannot tell yet if the owner lives."""
        return self._foreign.undecided()

    # ---- results ----

    def record(self, claims: Claims, evaluations: Iterable[tuple[str, Evaluation]]) -> set[str]:
        """Insert or replace points of the curves of many runs at once.

        Returns the claims that are no longer held.
        """
        points = list(evaluations)
        with self._transaction():
            held = self._held(claims)
            self._put(point(run_id, at) for run_id, at in points if run_id in held)
            self._advance(
                {
                    run_id: at.step
                    for run_id, at in sorted(points, key=lambda pair: pair[1].step)
                    if run_id in held
                }
            )
            return self._refuse(claims, held, "evaluations")

    def progress(self, claims: Claims, step: int) -> set[str]:
        """Record that a checkpoint at `step` is on the disk; return the claims no longer held."""
        with self._transaction():
            held = self._held(claims)
            self._advance(dict.fromkeys(held, step))
        return set(claims) - held

    def rewind(self, claims: Claims, step: int) -> set[str]:
        """Delete the points after `step`, from which training continues (-1: from scratch).

        Returns the claims that are no longer held.
        """
        with self._transaction() as connection:
            held = self._held(claims)
            connection.execute(
                "DELETE FROM evaluations WHERE step > ? AND run_id IN (SELECT value FROM "
                "json_each(?))",
                [step, json.dumps(sorted(held))],
            )
        return set(claims) - held

    def finish(self, results: Iterable[Result]) -> set[str]:
        """Store the results of runs that ended together, in one transaction.

        Returns the claims that are no longer held; their results are refused.
        """
        ended = list(results)
        claims = {result.run_id: result.attempt for result in ended}
        with self._transaction():
            held = self._held(claims)
            kept = [result for result in ended if result.run_id in held]
            self._put(point(result.run_id, result.last) for result in kept if result.last)
            for result in kept:
                self._end(result)
            return self._refuse(claims, held, "a result")

    # ---- remarks and settings ----

    def note(self, kind: str, text: str) -> None:
        """Add a note to the results, e.g. about a damaged checkpoint or a pack split for memory."""
        with self._transaction():
            self._note(kind, text)

    def set_meta(self, key: str, value: str) -> None:
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [key, value])

    # ---- inside a transaction ----

    def _change(self, claims: Claims, assignments: str, **values: Any) -> set[str]:
        """Update the runs that are still running as the claimed attempt; return their ids."""
        # +status keeps SQLite from scanning all running runs through the index on status: the few
        # claimed runs are found by their id.
        changed = self._connection.execute(
            f"UPDATE runs SET {assignments} FROM json_each(:claims) AS claim WHERE runs.run_id = "
            "claim.key AND runs.attempt = claim.value AND +runs.status = 'running' RETURNING "
            "runs.run_id",
            values | {"claims": json.dumps(dict(claims))},
        )
        return {run_id for (run_id,) in changed.fetchall()}

    def _held(self, claims: Claims) -> set[str]:
        held = self._connection.execute(
            "SELECT run_id FROM json_each(?) AS claim CROSS JOIN runs ON runs.run_id = claim.key "
            "WHERE runs.attempt = claim.value AND +runs.status = 'running'",
            [json.dumps(dict(claims))],
        )
        return {run_id for (run_id,) in held.fetchall()}

    def _put(self, points: Iterable[tuple[Any, ...]]) -> None:
        self._connection.executemany(PUT_POINT, ((*at, checksum(*at)) for at in points))

    def _advance(self, steps: dict[str, int]) -> None:
        # Only a step that no earlier attempt has reached counts as progress. Otherwise a run that
        # dies at the same step each time would be retried for ever.
        self._connection.execute(
            "UPDATE runs SET furthest = mark.value, progressed = 1, lost = 0 FROM json_each(?) AS "
            "mark WHERE runs.run_id = mark.key AND mark.value > runs.furthest",
            [json.dumps(steps)],
        )

    def _end(self, result: Result) -> None:
        self._connection.execute(
            "UPDATE runs SET status = ?, finished = ?, owner = NULL, renewed = NULL, lease_until = "
            "NULL, steps = ?, wall_s = ?, stopped_early = ?, diverged_step = ?, failure = ?, "
            "parameters = ?, state_size = ?, device = ?, threads = ?, versions = ?, drift = ? "
            "WHERE run_id = ? AND attempt = ? AND status = 'running'",
            (
                *(result.status, self.wall(), result.steps, number(result.wall_s)),
                *(STOPS.index(result.stopped_early), result.diverged_step, result.failure),
                *(result.parameters, result.state_size, result.device, result.threads),
                *(json.dumps(result.versions), "\n".join(result.drift) or None),
                *(result.run_id, result.attempt),
            ),
        )

    def _refuse(self, claims: Claims, held: set[str], what: str) -> set[str]:
        refused = set(claims) - held
        for run_id in sorted(refused):
            self._note(
                "late",
                f"{what} of run {run_id}, attempt {claims[run_id]}, came after the run was taken "
                "over or finished",
            )
        return refused


def _same(spec: Any, wanted: str) -> bool:
    try:
        return table("spec", spec) == json.loads(wanted)
    except BadRowError:
        return False


def _holds(renewed: Any, until: Any, now: float) -> bool:
    """Whether a lease is valid at `now`; a lease without its times is not."""
    return type(renewed) is type(until) is float and renewed <= now <= until
