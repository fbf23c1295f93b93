"""Checksums of rows: SQLite has none, so a flipped bit inside a value would go unnoticed.

A checksum covers the stored values in the order of the columns. It has eight bytes, so damage goes
unnoticed with probability 2 ** -64. Rows of a store of an older version may lack checksums. They
get them when the store is next opened for writing, from the values that they have then.
"""

import hashlib
import sqlite3
from collections.abc import Iterator
from typing import Any

from recollect.store.reading.values import BadRowError
from recollect.store.schema import POINT_COLUMNS, RUN_COLUMNS

_NAME = "recollect_sum"  # in SQL, see schema.ADDITIONS
_OLDER = "SELECT run_id FROM sums WHERE is_older"
_RUN = f"SELECT {', '.join(RUN_COLUMNS)} FROM runs WHERE run_id = ?"
_VALUES = tuple(name for name in POINT_COLUMNS if name != "checksum")
_POINTS = (
    f"SELECT run_id, {', '.join(_VALUES)} FROM evaluations WHERE run_id = ? AND checksum IS NULL"
)
# This trigger would refuse to add a checksum to a point of a finished run.
_RULE = "points_change_while_running"


def checksum(*values: Any) -> int:
    """Checksum of values as SQLite stores and returns them.

    It is taken over their repr, which distinguishes 1 from 1.0 and -0.0 from 0.0.
    """
    digest = hashlib.blake2b(repr(values).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def register(connection: sqlite3.Connection) -> None:
    """Make `checksum` available in SQL for the triggers that maintain the checksums of runs."""
    connection.create_function(_NAME, -1, checksum, deterministic=True)


def verify(values: tuple[Any, ...], stored: Any, is_older: bool) -> None:
    """Raise BadRowError if the values do not match the stored checksum.

    With `is_older` a missing checksum is accepted.
    """
    if stored is None and is_older:
        return
    if stored is None:
        raise BadRowError("its checksum is missing")
    if stored != checksum(*values):
        raise BadRowError("its checksum is wrong: it is not as it was written")


def seal_older(connection: sqlite3.Connection) -> int:
    """Add the missing checksums of older rows; return the number of runs that were affected.

    Call it inside a transaction.
    """
    # Not in SQL by recollect_sum: one text that is not UTF-8 would make the whole store fail.
    older = [run_id for (run_id,) in connection.execute(_OLDER)]
    if not older:
        return 0
    rules = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", [_RULE]).fetchall()
    connection.execute(f"DROP TRIGGER IF EXISTS {_RULE}")
    for run_id in older:
        connection.executemany(
            "UPDATE evaluations SET checksum = ? WHERE run_id = ? AND step = ?",
            list(_point_sums(connection, run_id)),
        )
        run = connection.execute(_RUN, [run_id]).fetchone()
        connection.execute(
            "UPDATE sums SET checksum = coalesce(checksum, ?), is_older = 0 WHERE run_id = ?",
            [checksum(*run) if run else None, run_id],
        )
    for (rule,) in rules:
        connection.execute(rule)
    return len(older)


def _point_sums(connection: sqlite3.Connection, run_id: Any) -> Iterator[tuple[int, Any, Any]]:
    for point in connection.execute(_POINTS, [run_id]):
        yield checksum(*point), point[0], point[1]
