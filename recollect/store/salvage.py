"""What can still be read from a damaged results database:
row by row, around the bad pages, on a copy.

If the table of contents itself is bad, the copy gets that of an empty database: all files of one
schema have the same. If the page that leads to all runs is bad, nothing can be reached this way;
the problems then name SQLite's own tool.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recollect.errors import SpecError, StoreError
from recollect.rows import Evaluation, RunRow
from recollect.store.database import FILE, Database
from recollect.store.schema import POINT_COLUMNS, RUN_COLUMNS, evaluation, run_row

_PAGE = 4096
_PAGE_COUNT = slice(28, 32)  # where the file's header says how many pages there are
# The smallest row of `runs` takes more bytes than this, which bounds how many there can be in a
# file.
_SMALLEST_ROW = 40


def salvage(folder: Path) -> tuple[list[RunRow], list[str]]:
    """All readable runs of a folder's database and what was wrong with the rest.

    The file itself is not touched.
    """
    path = folder / FILE
    if not path.is_file():
        raise SpecError(f"no results in {folder}; run `recollect run SPEC --out {folder}` first")
    with tempfile.TemporaryDirectory() as spare:
        copy = Path(spare) / FILE
        shutil.copyfile(path, copy)
        log = path.with_name(f"{FILE}-wal")
        if log.exists():
            shutil.copyfile(log, copy.with_name(log.name))
        rows, problems = _readable(copy)
        if problems and not rows:
            shutil.copyfile(path, copy)
            _renew_contents(copy)
            rows, more = _readable(copy)
            problems += more
    if problems and not rows:
        problems.append(f"no row could be reached; `sqlite3 {FILE} .recover` may find more")
    return rows, problems


def _renew_contents(copy: Path) -> None:
    """Give a copy the header and the schema pages of a new database; the pages with rows stay."""
    new = copy.parent / "new"
    Database.create(new).close()
    connection = sqlite3.connect(new / FILE)
    roots = {root for (root,) in connection.execute("SELECT rootpage FROM sqlite_master")}
    connection.close()
    contents, pages = bytearray(copy.read_bytes()), (new / FILE).read_bytes()
    for page in set(range(1, len(pages) // _PAGE + 1)) - roots:
        span = slice((page - 1) * _PAGE, page * _PAGE)
        contents[span] = pages[span]
    contents[_PAGE_COUNT] = (len(contents) // _PAGE).to_bytes(4, "big")
    copy.write_bytes(contents)


def _readable(copy: Path) -> tuple[list[RunRow], list[str]]:
    rows: list[RunRow] = []
    problems: list[str] = []
    connection = sqlite3.connect(copy, isolation_level=None)
    for rowid, columns in _runs(connection, copy.stat().st_size // _SMALLEST_ROW, problems):
        try:
            last = _last_point(connection, columns[0], problems)
            rows.append(run_row(columns, last))
        except (ValueError, TypeError, StoreError) as error:
            problems.append(f"run in row {rowid}: unreadable content ({error})")
    connection.close()
    return rows, problems


def _runs(
    connection: sqlite3.Connection, most: int, problems: list[str]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Rows from the front until a bad page, from the back until a bad page,
    and one by one in between.
    """
    query = f"SELECT rowid, {RUN_COLUMNS} FROM runs"
    front = list(_until_error(connection, f"{query} ORDER BY rowid", problems))
    if not problems:
        yield from ((rowid, tuple(columns)) for rowid, *columns in front)
        return
    back = list(_until_error(connection, f"{query} ORDER BY rowid DESC", []))
    first = front[-1][0] + 1 if front else 1
    last = back[-1][0] if back else most
    between = (
        found
        for rowid in range(first, last)
        for found in _until_error(connection, f"{query} WHERE rowid = {rowid}", [])
    )
    for rowid, *columns in (*front, *between, *(row for row in reversed(back) if row[0] >= first)):
        yield rowid, tuple(columns)


def _last_point(
    connection: sqlite3.Connection, run_id: str, problems: list[str]
) -> Evaluation | None:
    query = f"SELECT {POINT_COLUMNS} FROM evaluations WHERE run_id = ? ORDER BY step DESC LIMIT 1"
    trouble: list[str] = []
    found = list(_until_error(connection, query, trouble, run_id))
    problems += [f"curve of run {run_id}: {text}" for text in trouble]
    return evaluation(found[0]) if found else None


def _until_error(
    connection: sqlite3.Connection, query: str, problems: list[str], *values: Any
) -> Iterator[tuple[Any, ...]]:
    try:
        yield from connection.execute(query, values)
    except sqlite3.Error as error:
        problems.append(str(error))
