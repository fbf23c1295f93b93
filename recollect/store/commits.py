"""The number of commits of a results database, stored next to it in recollect.db-commits.

It reveals a database that lacks commits, such as a copy of a folder in use made without its log.

The database counts its commits itself. The file is written after each commit, so its count is equal
or lower, never higher. Writing it does not wait for the disk. It is removed when the last process
that wrote to the database closes it: from then on it would add nothing.
"""

import contextlib
import hashlib
import os
from pathlib import Path

from recollect.store.durable import open_regular

SUFFIX = "-commits"
_LONGEST = 64  # bytes of the file


class CommitMark:
    """The commit count of the database at `path`.

    The key of the database distinguishes it from another one that was at the same path.
    """

    def __init__(self, path: Path, key: bytes):
        self._path = path.with_name(path.name + SUFFIX)
        self._name = hashlib.sha256(key).hexdigest()[:16]

    def read(self) -> int:
        """Number of commits that the database must have at least; 0 if unknown."""
        with contextlib.suppress(OSError, ValueError):
            with os.fdopen(open_regular(self._path), "rb") as file:
                name, count = file.read(_LONGEST).decode("ascii").split()
            if name == self._name:
                return int(count)
        return 0

    def write(self, count: int) -> None:
        """Write the count; errors are ignored, and the count is then unknown."""
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(self._path, flags, 0o666)
            try:
                # One write of constant length: a reader finds the old number or the new one.
                os.write(handle, f"{self._name} {count:020d}\n".encode("ascii"))
            finally:
                os.close(handle)

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
