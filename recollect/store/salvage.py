"""Read a damaged results database as far as possible, row by row around the bad pages, on a copy.

If the schema pages are damaged, the copy gets those of an empty database: they are equal in all
files that were created with the same version of the schema. If the root page of the table `runs` is
damaged, no row can be reached this way; the problems then name SQLite's own recovery tool.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recollect.rows import Evaluation, RunRow
from recollect.store.database import FILE, no_results
from recollect.store.durable import open_regular
from recollect.store.reading.checksums import register, verify
from recollect.store.reading.connection import decode_text
from recollect.store.reading.values import BadRowError, evaluation, run_row
from recollect.store.schema import POINT_COLUMNS, RUN_COLUMNS, SUMS, VERSION, columns, statements

_PAGE = 4096
_PAGE_COUNT = slice(28, 32)  # bytes of the file header that hold the number of pages
# Every row of `runs` takes more bytes than this, which bounds the number of rows in a file.
_SMALLEST_ROW = 40


def salvage(folder: Path) -> tuple[list[RunRow], list[str]]:
    """Return all readable runs of a folder's database, and messages about the rest.

    The file itself is not changed.
    """
    path = folder / FILE
    if not path.is_file():
        raise no_results(folder)
    with tempfile.TemporaryDirectory() as spare:
        copy = Path(spare) / FILE
        _copy(path, copy)
        log, trouble = path.with_name(f"{FILE}-wal"), list[str]()
        try:
            _copy(log, copy.with_name(log.name))
        except FileNotFoundError:
            pass
        except OSError as error:
            trouble.append(f"{log}: {error.strerror}; read without what only it holds")
        rows, problems = _readable(copy)
        problems = trouble + problems
        if problems and not rows:
            found = [_with_new_contents(path, copy, began) for began in range(VERSION, 0, -1)]
            rows, more = max(found, key=lambda pair: len(pair[0]))
            problems += more
    if problems and not rows:
        problems.append(f"no row could be reached; `sqlite3 {FILE} .recover` may find more")
    return rows, problems


def _copy(path: Path, copy: Path) -> None:
    with os.fdopen(open_regular(path), "rb") as source, copy.open("wb") as target:
        shutil.copyfileobj(source, target)


def _with_new_contents(path: Path, copy: Path, began: int) -> tuple[list[RunRow], list[str]]:
    """Readable runs and problems if the file was created with version `began` of the schema."""
    copy.with_name(f"{FILE}-wal").unlink(missing_ok=True)
    _copy(path, copy)
    _renew_contents(copy, began)
    return _readable(copy)


def _renew_contents(copy: Path, version: int) -> None:
    """Overwrite the header and schema pages of the copy with those of a new database.

    Pages that hold rows stay as they are.
    """
    new = copy.with_name("new")
    new.unlink(missing_ok=True)
    connection = sqlite3.connect(new, isolation_level=None)
    register(connection)
    connection.execute("BEGIN")
    for statement in statements(version=version):
        connection.execute(statement)
    connection.execute("COMMIT")
    roots = {root for (root,) in connection.execute("SELECT rootpage FROM sqlite_master")}
    connection.close()
    contents, pages = bytearray(copy.read_bytes()), new.read_bytes()
    for page in set(range(1, len(pages) // _PAGE + 1)) - roots:
        span = slice((page - 1) * _PAGE, page * _PAGE)
        contents[span] = pages[span]
    contents[_PAGE_COUNT] = (len(contents) // _PAGE).to_bytes(4, "big")
    copy.write_bytes(contents)


def _readable(copy: Path) -> tuple[list[RunRow], list[str]]:
    rows: list[RunRow] = []
    problems: list[str] = []
    connection = sqlite3.connect(copy, isolation_level=None)
    connection.text_factory = decode_text
    register(connection)
    version = _version(connection)
    most = copy.stat().st_size // _SMALLEST_ROW
    for rowid, run in _runs(connection, version, most, problems):
        try:
            verify(run, _sum(connection, version, run[0]), is_older=True)
            last = _last_point(connection, version, run[0], problems)
            rows.append(run_row(run, last))
        except BadRowError as error:
            problems.append(f"run in row {rowid}: unreadable content ({error})")
    connection.close()
    return rows, problems


def _version(connection: sqlite3.Connection) -> int:
    """Version of the schema; the newest one if the file does not state a valid version."""
    found = list(_until_error(connection, "PRAGMA user_version", []))
    return found[0][0] if found and 1 <= found[0][0] <= VERSION else VERSION


def _runs(
    connection: sqlite3.Connection, version: int, most: int, problems: list[str]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the rowid and columns of every readable run.

    Rows are read from the front up to a bad page, from the back up to a bad page, and one by one in
    between.
    """
    query = f"SELECT rowid, {columns(RUN_COLUMNS, version)} FROM runs"
    front = list(_until_error(connection, f"{query} ORDER BY rowid", problems))
    if not problems:
        yield from ((rowid, tuple(run)) for rowid, *run in front)
        return
    back = list(_until_error(connection, f"{query} ORDER BY rowid DESC", []))
    first = front[-1][0] + 1 if front else 1
    last = back[-1][0] if back else most
    between = (
        found
        for rowid in range(first, last)
        for found in _until_error(connection, f"{query} WHERE rowid = {rowid}", [])
    )
    for rowid, *run in (*front, *between, *(row for row in reversed(back) if row[0] >= first)):
        yield rowid, tuple(run)


def _last_point(
    connection: sqlite3.Connection, version: int, run_id: str, problems: list[str]
) -> Evaluation | None:
    names = f"run_id, {columns(POINT_COLUMNS, version)}"
    query = f"SELECT {names} FROM evaluations WHERE run_id = ? ORDER BY step DESC LIMIT 1"
    trouble: list[str] = []
    found = list(_until_error(connection, query, trouble, run_id))
    problems += [f"curve of run {run_id}: {text}" for text in trouble]
    if not found:
        return None
    try:
        verify(found[0][:-1], found[0][-1], is_older=True)
        return evaluation(found[0][1:-1])
    except BadRowError as error:
        problems.append(f"curve of run {run_id}: {error}")
        return None


def _sum(connection: sqlite3.Connection, version: int, run_id: Any) -> Any:
    """The stored checksum of a run; None if it is missing or unreadable."""
    if version < SUMS["checksum"]:
        return None
    query = "SELECT checksum FROM sums WHERE run_id = ?"
    found = list(_until_error(connection, query, [], run_id))
    return found[0][0] if found else None


def _until_error(
    connection: sqlite3.Connection, query: str, problems: list[str], *values: Any
) -> Iterator[tuple[Any, ...]]:
    try:
        yield from connection.execute(query, values)
    except sqlite3.Error as error:
        problems.append(str(error))
    except UnicodeDecodeError:
        problems.append("the tables cannot be read")
