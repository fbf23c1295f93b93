"""Every refusal this package utters, with the exit code the command line gives it.

A message names the value, the rule it breaks and the remedy, in at most three lines. Anything else
that escapes is a bug. What others wrote is shown as `printable`.
"""

import errno
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# As the loader, the threads and torch say it, on a CPU often as a RuntimeError or an ImportError.
_NO_MEMORY = (
    "can't allocate memory",
    "cannot allocate memory",
    "failed to map segment",
    "can't start new thread",
    "out of memory",
    "not enough memory",
)
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE}
_LONGEST = 300  # letters of a message that this package did not write
# What a terminal obeys instead of showing it; tabs and line breaks are text.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]"
)

_noticed: ContextVar[list[str] | None] = ContextVar("noticed", default=None)


def command_text(*words: object) -> str:
    """A command of this program as a shell takes it, whatever a folder is called."""
    return shlex.join(["recollect", *map(str, words)])


@contextmanager
def noticing_damage() -> Iterator[list[str]]:
    """Fills a list with what is left out of any results that are read inside."""
    found: list[str] = []
    token = _noticed.set(found)
    try:
        yield found
    finally:
        _noticed.reset(token)


def notice_damage(problem: str) -> None:
    """Something stored is not as it was written: its reader goes on without it, and whoever called
    it hears of it (`noticing_damage`).
    """
    found = _noticed.get()
    if found is not None and problem not in found:
        found.append(problem)


def printable(text: str) -> str:
    """The text with control characters spelt out: names and notes may come from anywhere."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class RecollectError(Exception):
    """Base of all refusals; `exit_code` is what the command line returns."""

    exit_code = 1

    def _render_traceback_(self) -> list[str]:
        """What IPython and notebooks show of it: the refusal, not the way it came."""
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
    """A GPU refuses everything this process asks of it; another process, or GPU, may go on."""


class ReaderGone(RecollectError):  # noqa: N818 (it is no error)
    """Nobody reads the output any more, and whoever did has all he wanted."""

    exit_code = 0


class Stopped(RecollectError):  # noqa: N818 (it is no error)
    """A signal asked the work to stop; a checkpoint was written and the work can be resumed."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


def lacks_memory(error: BaseException) -> bool:
    """Whether memory ran out, in whatever words."""
    return isinstance(error, MemoryError) or any(text in str(error).lower() for text in _NO_MEMORY)


def as_refusal(error: BaseException, where: str = "") -> RecollectError:
    """An error that nobody expected, in words for a person; `where` it happened, as " in ..."."""
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
