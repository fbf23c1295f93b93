"""The display of a training on standard output: lines and, on a terminal, a picture that is updated
in place. rich is not loaded before there is something to draw.
"""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from recollect.errors import ReaderGone, ResourceError, printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.live import Live
    from rich.segment import Segment


class Terminal:
    """A `Screen` on standard output. If that is not a terminal, it shows only lines."""

    def __init__(self) -> None:
        self._live: Live | None = None

    def say(self, line: str) -> None:
        if self._live:
            self._live.console.print(printable(line), markup=False, highlight=False)
        else:
            say(line)

    def show(self, picture: "RenderableType") -> bool:
        from rich.console import Console
        from rich.live import Live

        console = Console()
        if console.is_terminal:
            self._live = Live(Printable(picture), console=console, refresh_per_second=4)
            self._live.start()
        return self._live is not None

    def refresh(self) -> None:
        """Do nothing: a thread of rich's Live refreshes the picture."""

    def close(self) -> None:
        if self._live:
            self._live.stop()
            self._live = None


class Printable:
    """A renderable whose control characters are escaped, since a table may hold a stored name.

    rich adds its own colour codes later, so they are not affected.
    """

    def __init__(self, renderable: Any):
        self._renderable = renderable

    def __rich_console__(
        self, console: "Console", options: "ConsoleOptions"
    ) -> Iterator["Segment"]:
        for segment in console.render(self._renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def say(text: str) -> None:
    """Write one line to standard output."""
    write(f"{printable(text)}\n")


def write(text: str) -> None:
    """Write text with its own line ends to standard output. Raises an error if that fails."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
        raise ReaderGone from None
    except OSError as error:
        silence(sys.stdout)
        raise ResourceError(
            f"standard output cannot be written ({error.strerror}); what was finished is safe\n"
            "make room, or send it elsewhere"
        ) from None


def silence(stream: TextIO) -> None:
    """Redirect a broken stream to the null device, so that flushing its buffer at interpreter exit
    raises no error.
    """
    with contextlib.suppress(io.UnsupportedOperation, OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
