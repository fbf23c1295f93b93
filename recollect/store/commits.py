"""How many commits a results database has seen, beside it in recollect.db-commits: a database that
lacks some is recognised, such as a copy of a folder in use that was made without its log.

The database counts its commits in itself. The file beside it is written after each of them, so it
says as many or fewer, never more. It is not waited for, and it goes when the last process that
wrote closes the database: it says nothing that the database then does not say.
"""

import contextlib
import hashlib
import os
from pathlib import Path

from recollect.store.durable import open_regular

SUFFIX = "-commits"
_LONGEST = 64  # bytes of the file


class CommitMark:
    """Of the database at `path`, which its key tells from any other that stood there."""

    def __init__(self, path: Path, key: bytes):
        self._path = path.with_name(path.name + SUFFIX)
        self._name = hashlib.sha256(key).hexdigest()[:16]

    def read(self) -> int:
        """Commits that the database must have; 0 if nothing is known."""
        with contextlib.suppress(OSError, ValueError):
            with os.fdopen(open_regular(self._path), "rb") as file:
                name, count = file.read(_LONGEST).decode("ascii").split()
            if name == self._name:
                return int(count)
        return 0

    def write(self, count: int) -> None:
        """Where it cannot be, nothing is known of it."""
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(self._path, flags, 0o666)
            try:
                # One call of always the same length: a reader finds the old number or the new.
                os.write(handle, f"{self._name} {count:020d}\n".encode("ascii"))
            finally:
                os.close(handle)

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
