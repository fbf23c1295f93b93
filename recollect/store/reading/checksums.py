"""Checksums of rows: SQLite has none, and a flipped bit inside a value is another value.

Over the values as they are stored, in the order of the columns; eight bytes, so that damage passes
once in 2 ** 64. A store that is older than its checksums has rows without.
"""

import hashlib
import sqlite3
from typing import Any

from recollect.store.reading.values import BadRowError

_NAME = "recollect_sum"  # in SQL, see schema.ADDITIONS


def checksum(*values: Any) -> int:
    """Of values as SQLite takes and gives them; repr tells 1 from 1.0 and -0.0 from 0.0."""
    digest = hashlib.blake2b(repr(values).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def register(connection: sqlite3.Connection) -> None:
    """The triggers that keep the checksums of runs call it."""
    connection.create_function(_NAME, -1, checksum, deterministic=True)


def verify(values: tuple[Any, ...], stored: Any, is_older: bool) -> None:
    """Refuse a row that is not as it was written."""
    if stored is None and is_older:
        return
    if stored is None:
        raise BadRowError("its checksum is missing")
    if stored != checksum(*values):
        raise BadRowError("its checksum is wrong: it is not as it was written")
