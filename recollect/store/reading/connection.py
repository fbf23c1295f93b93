"""Connections to a database file: locks, recognition of the file, and readable error messages.

A file of another program or of a newer version is never written to, not even to set its journal
mode.
"""

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from recollect.errors import RecollectError, ResourceError, SpecError, StoreError, command_text
from recollect.store.reading.checksums import register
from recollect.store.schema import APPLICATION_ID, VERSION

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


def connect_writer(path: Path, create: bool) -> sqlite3.Connection:
    """Connect for writing; every commit is on the disk when it returns."""
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
    """Connect for reading; the connection changes no row and leaves no file behind.

    It works while other processes write, and in a read-only folder.
    """
    if os.access(path.parent, os.W_OK):
        # Not mode=ro, which leaves -shm and -wal files behind: only a connection that may write
        # can remove them.
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
            raise  # immutable=1 would silently ignore rows that are only in the log
        return _connect(path, "ro&immutable=1")
    return connection


def recognise(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema version of a results database, or 0 if the file is empty.

    Raises StoreError for any other file.
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
            f"changed\nsave the readable rows with `{_salvage(path)}`"
        )
    return version


def retry_while_locked(act: Callable[[], T]) -> T:
    """Call `act` and retry while another process locks the file, for up to PATIENCE_S.

    SQLite's own timeout does not cover every lock that it takes.
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
    """Turn every sqlite3 error of the block into an error that names the file and the remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise _refusal(error, path) from error
    except UnicodeDecodeError:
        # sqlite3 quotes the text of a damaged table in its message and fails to decode it.
        raise _damaged("its tables cannot be read", path) from None


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    _require_regular(path)
    # as_uri quotes special characters of folder names (blanks, ?, #, %, newlines). The store's lock
    # serialises threads.
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=5.0, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = decode_text
    register(connection)
    return connection


def _require_regular(path: Path) -> None:
    """Refuse a pipe at the path of a database file: SQLite would wait for it for ever."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        file = path.with_name(path.name + suffix)
        try:
            mode = file.stat().st_mode
        except OSError:
            # Not there, or no longer: other processes create and remove journals at any time. What
            # else may be wrong with it SQLite reports itself.
            continue
        if not stat.S_ISREG(mode):
            raise StoreError(
                f"{file}: is no regular file, so not one of a results database; nothing was "
                "changed\nremove it, or give another folder"
            )


def decode_text(data: bytes) -> str:
    """Decode a stored text and replace bytes that are not UTF-8.

    Such a text then invalidates its row alone; by default sqlite3 fails the whole query.
    """
    return data.decode(errors="replace")


def _primary(error: sqlite3.Error) -> int:
    # The low byte of an extended code is the primary code. A few errors of the sqlite3 module have
    # no code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _salvage(path: Path) -> str:
    return command_text("export", path.parent, "--salvage")


def _damaged(why: str, path: Path) -> StoreError:
    return StoreError(
        f"{path}: damaged ({why}); nothing was changed\n"
        f"save the readable rows with `{_salvage(path)}`, then run "
        "into a new folder"
    )


def _refusal(error: sqlite3.Error, path: Path) -> RecollectError:
    code = _primary(error)
    if code in _DAMAGED:
        return _damaged(str(error), path)
    if code in _FULL:
        return ResourceError(
            f"{path}: the disk is full or failing ({error}); what was finished is safe\n"
            f"free space, then `{command_text('resume', path.parent)}`"
        )
    if code in _REFUSED:
        return SpecError(
            f"{path.parent}: {path.name} cannot be opened or written there ({error}); choose a "
            "folder you may write to"
        )
    if code in _WAITING:
        return ResourceError(
            f"{path}: held by another process for more than {PATIENCE_S:.0f} s; stop it, or try "
            "again later"
        )
    if code == sqlite3.SQLITE_ERROR:
        return StoreError(
            f"{path}: not a results database as recollect makes them ({error}); nothing was "
            f"changed\nsave the readable rows with `{_salvage(path)}`"
        )
    return StoreError(f"{path}: refused by its own rules ({error}); nothing was changed")
