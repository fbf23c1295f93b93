"""The database file: opening it, recognising it, waiting for its lock; every sqlite3 error becomes
a refusal in plain words.

A file that is not ours, or newer than we are, is never written to, not even to set its journal
mode.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from recollect.errors import RecollectError, ResourceError, SpecError, StoreError
from recollect.store.durable import make_folder, sync_folder
from recollect.store.failpoint import failpoint
from recollect.store.ownership import is_dead
from recollect.store.reading.checksums import register
from recollect.store.schema import APPLICATION_ID, VERSION, statements

FILE = "recollect.db"
PATIENCE_S = 60.0
_WAITING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_DAMAGED = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}
_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
_REFUSED = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
}

T = TypeVar("T")


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
        store._upgrade()
        # The tables go into the main file at once: a log lost later costs its commits, not the
        # whole database.
        store._read("PRAGMA wal_checkpoint")
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
            store._upgrade()
        return store

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

    def do_not_wait_for_disk(self) -> None:
        """For a database that can be made again: a power cut may cost it."""
        self._read("PRAGMA synchronous = OFF")

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and on the disk when it ends."""
        with self._lock, sqlite_refusals(self.path):
            retry_while_locked(lambda: self._connection.execute("BEGIN IMMEDIATE"))
            try:
                yield self._connection
                failpoint("store.written")
                self._connection.execute("COMMIT")
            except BaseException:
                # On a full disk SQLite may have rolled back by itself.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        failpoint("store.committed")

    def _read(self, query: str, *values: Any) -> list[Any]:
        with self._lock, sqlite_refusals(self.path):
            return retry_while_locked(lambda: self._connection.execute(query, values).fetchall())


def connect_writer(path: Path, create: bool) -> sqlite3.Connection:
    """A connection whose every commit is on the disk when it returns."""
    connection = _connect(path, "rwc" if create else "rw")
    try:
        recognise(connection, path)
        retry_while_locked(lambda: connection.execute("PRAGMA journal_mode = WAL"))
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that changes no row and leaves no file behind,
    also beside writers and in a read-only folder.
    """
    if os.access(path.parent, os.W_OK):
        # Not mode=ro, which leaves its -shm and -wal behind: only a connection that may write can
        # remove them.
        connection = _connect(path, "rw")
        connection.execute("PRAGMA query_only = ON")
        return connection
    connection = _connect(path, "ro")
    try:
        retry_while_locked(lambda: connection.execute("PRAGMA schema_version").fetchone())
    except sqlite3.OperationalError:
        connection.close()
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise  # immutable would silently leave out what only the log holds
        return _connect(path, "ro&immutable=1")
    return connection


def recognise(connection: sqlite3.Connection, path: Path) -> int:
    """The version of a results database of ours, 0 if the file is empty; anything else is
    refused.
    """

    def read_identity() -> tuple[int, int, int]:
        row = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
        application, version, tables = connection.execute(
            f"{row} FROM pragma_application_id, pragma_user_version"
        ).fetchone()
        return application, version, tables

    application, version, tables = retry_while_locked(read_identity)
    if application == 0 and version == 0 and tables == 0:
        return 0
    if application != APPLICATION_ID:
        raise StoreError(
            f"{path}: is a database of another program; give another --out folder (this file was "
            "not touched)"
        )
    if version > VERSION:
        raise StoreError(
            f"{path}: written by a newer recollect (schema {version}, this one knows {VERSION}); "
            "upgrade recollect"
        )
    if version < 1:
        raise StoreError(
            f"{path}: its schema has number {version}, which no recollect wrote; nothing was "
            f"changed\nsave the readable rows with `recollect export {path.parent} --salvage`"
        )
    return version


def retry_while_locked(act: Callable[[], T]) -> T:
    """`act`, retried while another process locks the file: SQLite's own timeout does not cover
    every lock it takes.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return act()
        except sqlite3.OperationalError as error:
            if _primary(error) not in _WAITING or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@contextmanager
def sqlite_refusals(path: Path) -> Iterator[None]:
    """Every sqlite3 error inside becomes a refusal that names the file and the remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise _refusal(error, path) from error
    except UnicodeDecodeError:
        # sqlite3 quotes the text of a damaged table in its message, and fails at that.
        raise _damaged("its tables cannot be read", path) from None


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    _require_regular(path)
    # as_uri quotes what a folder name may hold (blanks, ?, #, %, newlines); threads are kept apart
    # by the store's lock.
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=5.0, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = decode_text
    register(connection)
    return connection


def _require_regular(path: Path) -> None:
    """SQLite would wait for ever at a pipe in the place of one of its files."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        file = path.with_name(path.name + suffix)
        if file.exists() and not file.is_file():
            raise StoreError(
                f"{file}: is no regular file, so not one of a results database; nothing was "
                "changed\nremove it, or give another folder"
            )


def decode_text(data: bytes) -> str:
    """A text that is no UTF-8 must cost its row; sqlite3 itself refuses the whole query."""
    return data.decode(errors="replace")


def _primary(error: sqlite3.Error) -> int:
    # sqlite3 raises a few errors of its own that carry no code; extended codes keep the primary one
    # in the low byte.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _damaged(why: str, path: Path) -> StoreError:
    return StoreError(
        f"{path}: damaged ({why}); nothing was changed\n"
        f"save the readable rows with `recollect export {path.parent} --salvage`, then run "
        "into a new folder"
    )


def _refusal(error: sqlite3.Error, path: Path) -> RecollectError:
    code = _primary(error)
    if code in _DAMAGED:
        return _damaged(str(error), path)
    if code in _FULL:
        return ResourceError(
            f"{path}: the disk is full or failing ({error}); what was finished is safe\n"
            f"free space, then `recollect resume {path.parent}`"
        )
    if code in _REFUSED:
        return SpecError(
            f"{path.parent}: {FILE} cannot be opened or written there ({error}); choose a folder "
            "you may write to"
        )
    if code in _WAITING:
        return ResourceError(
            f"{path}: held by another process for more than {PATIENCE_S:.0f} s; stop it, or try "
            "again later"
        )
    if code == sqlite3.SQLITE_ERROR:
        return StoreError(
            f"{path}: not a results database as recollect makes them ({error}); nothing was "
            f"changed\nsave the readable rows with `recollect export {path.parent} --salvage`"
        )
    return StoreError(f"{path}: refused by its own rules ({error}); nothing was changed")
