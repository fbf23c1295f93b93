"""The results file of a folder: making and opening it, bringing it up to date, transactions, and
whether it has all that was committed.
"""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from recollect.errors import ResourceError, SpecError, StoreError
from recollect.store.commits import CommitMark
from recollect.store.durable import make_folder, sync_folder
from recollect.store.failpoint import failpoint
from recollect.store.ownership import ForeignLeases, is_dead
from recollect.store.reading.checksums import seal_older
from recollect.store.reading.connection import (
    connect_reader,
    connect_writer,
    recognise,
    retry_while_locked,
    sqlite_refusals,
)
from recollect.store.schema import VERSION, statements

FILE = "recollect.db"
OWN_CACHE_KB = 16_384  # of a database that nobody else opens


class Database:
    """One open results file, with its lock and its transactions;
    `store.Store` defines what is in them.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, version: int = VERSION):
        self.path, self.version = path, version  # of the schema in the file
        self.clock: Callable[[], float] = time.monotonic
        self.wall: Callable[[], float] = time.time
        self._connection = connection
        self._lock = threading.RLock()
        self._log_missing = False
        self._mark: CommitMark | None = None  # of a store that writes
        self._foreign = ForeignLeases()
        self._problems: dict[str, str] = {}  # by where they are
        self._left_out: set[str] = set()  # runs

    @classmethod
    def create(cls, folder: Path) -> Self:
        """The store of `folder`, made if there is none. A process killed
        in here does not hinder the next.
        """
        path = folder / FILE
        make_folder(folder)
        with sqlite_refusals(path):
            store = cls(path, connect_writer(path, create=True))
        failpoint("store.opened")
        store._begin_writing()
        store._put_log_into_file()
        sync_folder(folder)
        sync_folder(folder.absolute().parent)
        return store

    @classmethod
    def open(cls, folder: Path, read_only: bool = False) -> Self:
        """The store that is there."""
        path = folder / FILE
        absent = SpecError(f"no results in {folder}; run `recollect run SPEC --out {folder}` first")
        if not path.is_file():
            raise absent
        # SQLite removes the log before its index; the index alone means that something else
        # removed the log.
        log_missing = (
            path.with_name(f"{FILE}-shm").exists() and not path.with_name(f"{FILE}-wal").exists()
        )
        with sqlite_refusals(path):
            connection = connect_reader(path) if read_only else connect_writer(path, create=False)
            try:
                version = recognise(connection, path)
                if not version:
                    raise absent
            except BaseException:
                connection.close()
                raise
        store = cls(path, connection, version)
        store._log_missing = log_missing
        if not read_only:
            store._begin_writing()
        return store

    def _begin_writing(self) -> None:
        """Bring the file up to date; commits that it lacks are noted, once."""
        self._upgrade()
        lost = self.lost_commits
        self._mark = CommitMark(self.path, self.key)
        if lost:
            with self._transaction():
                self._note("log", lost)

    @cached_property
    def lost_commits(self) -> str:
        """What this folder has seen and the database lacks, in words; empty if nothing."""
        known = CommitMark(self.path, self.key).read()  # before the database, which others write
        try:
            found = self._read("SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'commits'")
        except StoreError:
            return ""  # it is damaged, which is another matter
        lost = known - (found[0][0] if found else 0)
        if lost <= 0:
            return ""
        return (
            f"{self.path.name} lacks the last {lost:,} commits that this folder has seen: it was "
            "copied, or put back, without its log; what they held is trained again"
        )

    @cached_property
    def key(self) -> bytes:
        """Seals the checkpoints of this store; empty in a store that is older and only read."""
        found = self._read("SELECT value FROM meta WHERE key = 'key'")
        try:
            return bytes.fromhex(found[0][0]) if found else b""
        except (TypeError, ValueError):
            return b"damaged"  # fits no checkpoint: each costs its file

    def _upgrade(self) -> None:
        """Bring an empty file, or one of an older version, to this version, in one step."""
        if recognise(self._connection, self.path) < VERSION:
            with self._transaction() as connection:
                # Again: another process may have done it in between.
                version = recognise(connection, self.path)
                if 0 < version < VERSION:
                    self._refuse_if_held()
                for statement in statements(since=version):
                    connection.execute(statement)
                sealed = seal_older(connection)
                if sealed:
                    self._note(
                        "checksums",
                        f"{sealed:,} runs of an older recollect had none; changes are noticed from "
                        "now on",
                    )
        self.version = VERSION

    def _refuse_if_held(self) -> None:
        """A process of an older version would write rows as they were then."""
        now = self.clock()
        held = self._connection.execute(
            "SELECT DISTINCT owner FROM runs WHERE status = 'running' AND ? BETWEEN renewed AND "
            "lease_until",
            [now],
        ).fetchall()
        if any(not is_dead(str(owner)) for (owner,) in held):
            raise StoreError(
                f"{self.path.parent}: is being trained by an older recollect; wait until that has "
                "ended, or stop it"
            )

    @property
    def problems(self) -> tuple[str, ...]:
        """Rows that were left out of what was read so far, and why."""
        return tuple(self._problems.values())

    def keep_for_itself(self) -> None:
        """For a database that nobody else opens and that can be made again: it is not waited for,
        and no log is written before the file. A death may cost it.
        """
        for setting in ("synchronous = OFF", "locking_mode = EXCLUSIVE", "journal_mode = MEMORY"):
            self._read(f"PRAGMA {setting}")
        self._read(f"PRAGMA cache_size = -{OWN_CACHE_KB}")

    def copy_to(self, path: Path) -> None:
        """The database as it is now as one file, without a log beside it."""
        path.unlink(missing_ok=True)
        with self._lock, sqlite_refusals(path):
            copy = sqlite3.connect(path, isolation_level=None)
            try:
                self._connection.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
            finally:
                copy.close()

    def close(self) -> None:
        with self._lock, sqlite_refusals(self.path):
            self._connection.close()
        # The last to close has put the log into the file.
        if self._mark and not self.path.with_name(f"{FILE}-wal").exists():
            self._mark.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and on the disk when it ends."""
        with self._lock, sqlite_refusals(self.path):
            retry_while_locked(lambda: self._connection.execute("BEGIN IMMEDIATE"))
            try:
                yield self._connection
                commits = self._count_commit() if self._mark else 0
                failpoint("store.written")
                self._connection.execute("COMMIT")
            except BaseException:
                # On a full disk SQLite may have rolled back by itself.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        if self._mark:
            self._mark.write(commits)
        failpoint("store.committed")

    def _put_log_into_file(self) -> None:
        """As far as others and the disk allow: it is committed already. What a folder is for, its
        tables and its plan, is in the main file at once: a log lost later costs results, which can
        be trained again.
        """
        with contextlib.suppress(ResourceError):
            self._read("PRAGMA wal_checkpoint")

    def _note(self, kind: str, text: str) -> None:
        """Inside a transaction."""
        self._connection.execute("INSERT INTO notes VALUES (?, ?, ?)", [self.wall(), kind, text])

    def _count_commit(self) -> int:
        found = self._connection.execute(
            "UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'commits' "
            "RETURNING CAST(value AS INTEGER)"
        ).fetchall()
        return found[0][0] if found else 0

    def _read(self, query: str, *values: Any) -> list[Any]:
        with self._lock, sqlite_refusals(self.path):
            return retry_while_locked(lambda: self._connection.execute(query, values).fetchall())
