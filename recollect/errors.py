"""All errors that this package raises on purpose, with their exit codes on the command line.

A message names the value, the rule it breaks and the remedy, in at most three lines. Any other
exception that escapes is a bug. Text from outside the package is shown through `printable`.
"""

import errno
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

# Messages of the loader, the thread library and torch. On a CPU they often come as a RuntimeError
# or an ImportError.
_NO_MEMORY = (
    "can't allocate memory",
    "cannot allocate memory",
    "failed to map segment",
    "can't start new thread",
    "out of memory",
    "not enough memory",
)
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE}
_LONGEST = 300  # characters shown of a message from another package
# Characters that a terminal interprets instead of showing; tabs and line breaks count as text.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]"
)

_noticed: ContextVar[list[str] | None] = ContextVar("noticed", default=None)


def command_text(*words: object) -> str:
    """A command of this program, quoted for a shell."""
    return shlex.join(["recollect", *map(_as_argument, words)])


def _as_argument(word: object) -> str:
    """A path that begins with a dash would be taken for an option."""
    return f"./{word}" if isinstance(word, Path) and str(word).startswith("-") else str(word)


@contextmanager
def noticing_damage() -> Iterator[list[str]]:
    """Collect messages about all results that are left out by reads inside the block."""
    found: list[str] = []
    token = _noticed.set(found)
    try:
        yield found
    finally:
        _noticed.reset(token)


def notice_damage(problem: str) -> None:
    """Report that something stored is not as it was written and is left out.

    The message goes to the caller's `noticing_damage` block, if there is one.
    """
    found = _noticed.get()
    if found is not None and problem not in found:
        found.append(problem)


def printable(text: str) -> str:
    """The text with control characters escaped, since names and notes may come from anywhere."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class RecollectError(Exception):
    """Base class of all errors of this package; the command line exits with `exit_code`."""

    exit_code = 1

    def _render_traceback_(self) -> list[str]:
        """Text that IPython and notebooks show: the message without a traceback."""
        return f"{type(self).__name__}: {printable(str(self))}".splitlines()


class SpecError(RecollectError):
    """A bad specification or a bad request: nothing was written."""

    exit_code = 2


class StoreError(RecollectError):
    """The results database or a checkpoint is damaged, foreign or from a newer version."""

    exit_code = 3


class ResourceError(RecollectError):
    """Out of disk or out of memory; what was finished is safe and the work can be resumed."""

    exit_code = 4


class DeviceLostError(ResourceError):
    """A GPU fails every call of this process; another process or GPU may still work."""


class ReaderGone(RecollectError):  # noqa: N818 (it is no error)
    """The reader of the output has closed it, e.g. the `head` of a pipe; this is no failure."""

    exit_code = 0


class Stopped(RecollectError):  # noqa: N818 (it is no error)
    """A signal asked the work to stop; a checkpoint was written and the work can be resumed."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


def lacks_memory(error: BaseException) -> bool:
    """Whether the error means that memory ran out, judged by its type and message."""
    return isinstance(error, MemoryError) or any(text in str(error).lower() for text in _NO_MEMORY)


def as_refusal(error: BaseException, where: str = "") -> RecollectError:
    """Turn an unexpected exception into a readable error; `where` it happened, as " in ..."."""
    if lacks_memory(error):
        return ResourceError(
            f"out of memory{where}; close other programs or use a smaller batch, width or length"
        )
    if isinstance(error, OSError) and error.strerror:
        named = f"{error.filename}: " if error.filename is not None else ""
        if error.errno in _NO_ROOM:
            return ResourceError(f"{named}{error.strerror}{where}; make room, then go on")
        return SpecError(f"{named}{error.strerror}{where}; give another path")
    lines = str(error).splitlines()
    text = "".join(c if c.isprintable() else "?" for c in lines[0][:_LONGEST]) if lines else ""
    return RecollectError(
        f"internal error{where}: {type(error).__name__}: {text}\n"
        "please report it; RECOLLECT_DEBUG=1 shows where it happened"
    )
