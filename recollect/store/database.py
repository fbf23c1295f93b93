"""The results file of a folder: opening, upgrades, transactions, and detection of lost commits."""

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


def no_results(folder: Path) -> SpecError:
    """Return the refusal of a place without a database."""
    if folder.is_file():
        return SpecError(
            f"{folder} is a file; results are read from a folder: name the one that holds {FILE}"
        )
    return SpecError(f"no results in {folder}; run `recollect run SPEC --out {folder}` first")


OWN_CACHE_KB = 16_384  # for a database that only one process opens


class Database:
    """One open results file, with its lock and its transactions.

    `store.Store` defines the content of the transactions.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, version: int = VERSION):
        self.path, self.version = path, version  # of the schema in the file
        self.clock: Callable[[], float] = time.monotonic
        self.wall: Callable[[], float] = time.time
        self._connection = connection
        self._lock = threading.RLock()
        self._log_missing = False
        self._mark: CommitMark | None = None  # only if opened for writing
        self._foreign = ForeignLeases()
        self._problems: dict[str, str] = {}  # message by place
        self._left_out: set[str] = set()  # ids of runs

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Open the store of `folder`; create it if there is none.

        If the process is killed inside this call, the next one can still create or open the store.
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
        """Open the existing store of `folder`."""
        path = folder / FILE
        if not path.is_file():
            raise no_results(folder)
        # SQLite removes the log (-wal) before its index (-shm). An index without a log means that
        # something else removed the log.
        log_missing = (
            path.with_name(f"{FILE}-shm").exists() and not path.with_name(f"{FILE}-wal").exists()
        )
        with sqlite_refusals(path):
            connection = connect_reader(path) if read_only else connect_writer(path, create=False)
            try:
                version = recognise(connection, path)
                if not version:
                    raise no_results(folder)
            except BaseException:
                connection.close()
                raise
        store = cls(path, connection, version)
        store._log_missing = log_missing
        if not read_only:
            store._begin_writing()
        return store

    def _begin_writing(self) -> None:
        """Upgrade the file to the current schema; note commits that it lacks, once."""
        self._upgrade()
        lost = self.lost_commits
        self._mark = CommitMark(self.path, self.key)
        if lost:
            with self._transaction():
                self._note("log", lost)

    @cached_property
    def lost_commits(self) -> str:
        """Message about commits that were made in this folder but are missing in the database.

        Empty if none is missing.
        """
        # The mark is read first: other processes may commit between the two reads.
        known = CommitMark(self.path, self.key).read()
        try:
            found = self._read("SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'commits'")
        except StoreError:
            return ""  # the database is damaged; `check` reports that
        lost = known - (found[0][0] if found else 0)
        if lost <= 0:
            return ""
        return (
            f"{self.path.name} lacks the last {lost:,} commits that this folder has seen: it was "
            "copied, or put back, without its log; what they held is trained again"
        )

    @cached_property
    def key(self) -> bytes:
        """Key that seals the checkpoints of this store.

        Empty in a store of an older version that is opened read-only.
        """
        found = self._read("SELECT value FROM meta WHERE key = 'key'")
        try:
            return bytes.fromhex(found[0][0]) if found else b""
        except (TypeError, ValueError):
            return b"damaged"  # matches no checkpoint, so every checkpoint is rejected

    def _upgrade(self) -> None:
        """Upgrade an empty file, or one of an older version, to this version in one transaction."""
        if recognise(self._connection, self.path) < VERSION:
            with self._transaction() as connection:
                # Check again: another process may have upgraded the file in between.
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
        """Refuse an upgrade while a process of an older version trains in this folder.

        That process would continue to write rows of the older schema.
        """
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
        """Messages about the rows left out of all reads so far, with the reasons."""
        return tuple(self._problems.values())

    def keep_for_itself(self) -> None:
        """Trade durability for speed in a database that only this process opens.

        Commits do not wait for the disk, and no log is written before the file. A crash may destroy
        the database, so it must be possible to rebuild it.
        """
        for setting in ("synchronous = OFF", "locking_mode = EXCLUSIVE", "journal_mode = MEMORY"):
            self._read(f"PRAGMA {setting}")
        self._read(f"PRAGMA cache_size = -{OWN_CACHE_KB}")

    def copy_to(self, path: Path) -> None:
        """Copy the current content of the database into a single file that needs no log."""
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
        # The last connection that closes has merged the log into the file.
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
        """Commit all statements of the block or none; the commit is on the disk at the end."""
        with self._lock, sqlite_refusals(self.path):
            retry_while_locked(lambda: self._connection.execute("BEGIN IMMEDIATE"))
            try:
                yield self._connection
                commits = self._count_commit() if self._mark else 0
                failpoint("store.written")
                self._connection.execute("COMMIT")
            except BaseException:
                # When the disk is full, SQLite may already have rolled back.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        if self._mark:
            self._mark.write(commits)
        failpoint("store.committed")

    def _put_log_into_file(self) -> None:
        """Move committed changes from the log into the main file, as far as other processes allow.

        Failure is ignored, since the changes are committed. Tables and plan are thus in the main
        file early: if the log is lost later, only results are lost, and they can be trained again.
        """
        with contextlib.suppress(ResourceError):
            self._read("PRAGMA wal_checkpoint")

    def _note(self, kind: str, text: str) -> None:
        """Add a note; call it inside a transaction."""
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
