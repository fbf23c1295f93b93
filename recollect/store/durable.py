"""Atomic and durable file writes: after a crash, either the old file or the new one exists.

A temporary file is written and synced, then renamed, then the folder is synced. The name of the
temporary file contains the identity of its writer, so that files left by a killed process can be
removed safely.
"""

import contextlib
import errno
import itertools
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote, unquote

from recollect.errors import ReaderGone, RecollectError, ResourceError, SpecError
from recollect.store.failpoint import failpoint
from recollect.store.ownership import is_dead, shares_clock, this_process

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}
_COPIED = 1 << 20  # bytes at a time
_STALE_S = 86_400.0
_serial = itertools.count()


def write_atomically(path: Path, data: bytes | Iterable[bytes | memoryview]) -> None:
    """Write `data` (bytes, or pieces of them) to `path`, atomically and durably.

    At any moment a reader or a crash finds the old content or the new one.
    """
    pieces = [memoryview(piece) for piece in ([data] if isinstance(data, bytes) else data)]
    _replace(path, pieces, sum(piece.nbytes for piece in pieces))


def copy_atomically(source: Path, path: Path) -> None:
    """Copy a file to `path` atomically, without loading it into memory as a whole."""
    with source.open("rb") as file:
        pieces = (memoryview(piece) for piece in iter(lambda: file.read(_COPIED), b""))
        _replace(path, pieces, os.fstat(file.fileno()).st_size)


def write_output(path: Path, data: bytes) -> None:
    """Write output to the path that the user gave.

    A regular file is replaced atomically; links to it are followed. Anything else (a device, a
    pipe) is opened and written to.
    """
    try:
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            mode = stat.S_IFREG  # a new file, perhaps at the target of a link
        if stat.S_ISREG(mode):
            target = path.resolve()
            with contextlib.suppress(OSError):  # the write below reports a bad folder
                sweep_orphans(target.parent)
            write_atomically(target, data)
        else:
            with path.open("wb", buffering=0) as file:
                left = memoryview(data)
                while left:
                    left = left[file.write(left) :]
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        raise write_refusal(error, path, len(data)) from None


def make_folder(folder: Path) -> None:
    """Create `folder` and its parents if they do not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_refusal(error, folder, 0) from None


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a power cut; syncing a file does not sync its name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_regular(path: Path) -> int:
    """Open a regular file for reading and return its handle.

    Refuses a pipe or a device at that path instead of waiting for it.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise IrregularFileError(errno.EINVAL, "is no regular file", str(path))
    return handle


class IrregularFileError(OSError):
    """The path of a file is a folder, a pipe or a device."""


def sweep_orphans(folder: Path) -> list[Path]:
    """Remove the temporary files of processes that are certainly dead; return their paths."""
    orphans = [path for path in folder.glob(".*.tmp") if _is_orphan(path)]
    for path in orphans:
        path.unlink(missing_ok=True)
    return orphans


def _replace(path: Path, pieces: Iterable[memoryview], size: int) -> None:
    temporary = path.with_name(f".{quote(this_process(), safe='')}.{next(_serial)}.tmp")
    try:
        _write(temporary, pieces)
        failpoint("file.synced")
        temporary.replace(path)
        failpoint("file.renamed")
        sync_folder(path.parent)
        failpoint("file.durable")
    except OSError as error:
        raise write_refusal(error, path, size) from None
    finally:
        # Removing works even on a full disk. After the rename there is nothing to remove.
        with contextlib.suppress(OSError):
            temporary.unlink()


def _is_orphan(path: Path) -> bool:
    owner = unquote(path.name[1:].rsplit(".", 2)[0])
    if is_dead(owner):
        return True
    # For a process of another boot or machine death is never certain, but no process writes one
    # file for a day.
    is_ours = owner.count("|") == this_process().count("|")
    with contextlib.suppress(OSError):
        return is_ours and not shares_clock(owner) and time.time() - path.stat().st_mtime > _STALE_S
    return False


def _write(path: Path, pieces: Iterable[memoryview]) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        failpoint("file.created")
        for piece in pieces:
            while piece.nbytes:
                piece = piece[os.write(handle, piece) :]
        failpoint("file.written")
        os.fsync(handle)
    finally:
        os.close(handle)


def write_refusal(error: OSError, path: Path, size: int) -> RecollectError:
    """The error to raise for a failed write, with a message for the user."""
    if error.errno in _REFUSED:
        return SpecError(
            f"{path}: cannot be written ({error.strerror}); choose a folder you may write to"
        )
    what = "no room" if error.errno in _FULL else "the disk failed"
    return ResourceError(
        f"{path}: {what} for {size:,} bytes ({error.strerror}); what was finished is safe\n"
        "free space, then `recollect resume` where it trained, else the same command again"
    )
