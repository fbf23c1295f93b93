"""Every refusal this package utters, with the exit code the command line gives it.

A message names the value, the rule it breaks and the remedy, in at most three lines. Anything else
that escapes is a bug.
"""

import errno

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


class RecollectError(Exception):
    """Base of all refusals; `exit_code` is what the command line returns."""

    exit_code = 1


class SpecError(RecollectError):
    """A bad specification or a bad request: nothing was written."""

    exit_code = 2


class StoreError(RecollectError):
    """The results database or a checkpoint is damaged, foreign or from a newer version."""

    exit_code = 3


class ResourceError(RecollectError):
    """Out of disk or out of memory; what was finished is safe and the work can be resumed."""

    exit_code = 4


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
