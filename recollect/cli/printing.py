"""How the command line says things: plain lines, complaints on standard error, tables."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from recollect.errors import ReaderGone, ResourceError, printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

MOST_COMPLAINTS = 5


def say(text: str) -> None:
    write(f"{printable(text)}\n")


def complain(text: str) -> None:
    """Where nobody can read it there is nothing else to do."""
    try:
        print(f"recollect: {printable(text)}", file=sys.stderr, flush=True)
    except OSError:
        _silence(sys.stderr)


def complain_some(lines: Sequence[str]) -> None:
    """The first of many complaints, and how many more there are."""
    for line in lines[:MOST_COMPLAINTS]:
        complain(line)
    if len(lines) > MOST_COMPLAINTS:
        complain(f"and {len(lines) - MOST_COMPLAINTS} more of that kind")


def time_text(seconds: float) -> str:
    """12 s, 3 min 20 s, 1 h 5 min"""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def show_step(text: str, is_last: bool = True) -> None:
    """On a terminal, a line on standard error; the next one overwrites it unless it is the last."""
    if sys.stderr.isatty():
        print(f"\r{text}", end="\n" if is_last else "", file=sys.stderr, flush=True)


def render(renderable: Any) -> None:
    """A table, or something else that rich draws."""
    from rich.console import Console

    # A pipe wants whole lines. Written here: rich ends the process where a pipe is closed.
    console = Console(width=None if sys.stdout.isatty() else 200)
    with console.capture() as drawn:
        console.print(Printable(renderable))
    write(drawn.get())


class Printable:
    """What rich draws, with control characters spelt out: a cell of a table may hold a stored name.
    rich adds its own colours later, so those stay.
    """

    def __init__(self, renderable: Any):
        self._renderable = renderable

    def __rich_console__(
        self, console: "Console", options: "ConsoleOptions"
    ) -> Iterator["Segment"]:
        for segment in console.render(self._renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def write(text: str) -> None:
    """Text that ends its own lines. What cannot be written is an error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
        raise ReaderGone from None
    except OSError as error:
        _silence(sys.stdout)
        raise ResourceError(
            f"standard output cannot be written ({error.strerror}); what was finished is safe\n"
            "make room, or send it elsewhere"
        ) from None


def _silence(stream: TextIO) -> None:
    """What is left in its buffer must not be an error of the interpreter's end."""
    with contextlib.suppress(io.UnsupportedOperation, OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
