"""Records in an append-only file, each either complete or ignored.

A frame is a mark, the length and the sha256 of its body, and the body. A writer that dies leaves an
incomplete last frame. A reader ignores it and reads from the same place again later. An invalid
frame followed by valid ones was damaged after it was written.
"""

import hashlib
import os
from pathlib import Path
from typing import Self

from recollect.errors import StoreError
from recollect.store.durable import write_refusal
from recollect.store.failpoint import failpoint

MARK = b"RFR1"
_LENGTH, _DIGEST = 4, 32
HEAD = len(MARK) + _LENGTH + _DIGEST
MAX_BODY = 1 << 28  # the longest body that is written; a larger length is invalid


def frame(body: bytes) -> bytes:
    """Return the frame of a body, as written to a file."""
    if len(body) > MAX_BODY:
        raise ValueError(f"a record of {len(body):,} bytes; at most {MAX_BODY:,} fit into a frame")
    return MARK + len(body).to_bytes(_LENGTH, "big") + hashlib.sha256(body).digest() + body


def body_at(data: bytes | memoryview, start: int) -> bytes | None:
    """The body of the frame that begins at `start`; None if it is incomplete or invalid."""
    head = bytes(data[start : start + HEAD])
    if len(head) < HEAD or not head.startswith(MARK):
        return None
    length = int.from_bytes(head[len(MARK) : len(MARK) + _LENGTH], "big")
    body = bytes(data[start + HEAD : start + HEAD + length])
    sound = len(body) == length and hashlib.sha256(body).digest() == head[-_DIGEST:]
    return body if sound else None


def split_frames(data: bytes) -> tuple[list[bytes], int]:
    """Return the bodies of the valid frames at the front, and the offset where they end."""
    bodies, end = [], 0
    while (body := body_at(data, end)) is not None:
        bodies.append(body)
        end += HEAD + len(body)
    return bodies, end


def has_frame(data: bytes) -> bool:
    """Whether there is a valid frame anywhere in `data`."""
    place = data.find(MARK)
    while place >= 0 and body_at(data, place) is None:
        place = data.find(MARK, place + 1)
    return place >= 0


class FrameReader:
    """Reads a growing file; each call returns the new complete records."""

    def __init__(self, path: Path):
        self.path, self.offset = path, 0

    def new(self) -> list[bytes]:
        """Return the bodies of the records added since the last call.

        The file is opened for each call, since a network file system shows the writes of other
        machines only then. A missing file counts as empty.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return []
        bodies, end = split_frames(data)
        # A writer that dies never leaves a valid record after an invalid one.
        if end < len(data) and has_frame(data[end:]):
            raise StoreError(
                f"{self.path}: damaged at byte {self.offset + end:,}, sound records follow; what "
                "stands before it was taken"
            )
        self.offset += end
        return bodies


class FrameWriter:
    """Appends records to a new file that no other process writes.

    If `is_synced`, a record is on the disk when `write` returns.
    """

    def __init__(self, path: Path, is_synced: bool = True):
        self.path, self._is_synced = path, is_synced
        try:
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
        except OSError as error:
            raise write_refusal(error, path, 0) from None

    def write(self, body: bytes) -> None:
        rest = memoryview(frame(body))
        size = rest.nbytes
        try:
            while rest.nbytes:
                rest = rest[os.write(self._handle, rest) :]
            failpoint("spool.written")
            if self._is_synced:
                os.fsync(self._handle)
        except OSError as error:
            raise write_refusal(error, self.path, size) from None
        failpoint("spool.synced")

    def close(self) -> None:
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
