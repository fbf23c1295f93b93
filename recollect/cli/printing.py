"""How the command line says things: plain lines, complaints on standard error, tables."""

import sys
from collections.abc import Sequence
from typing import Any

from recollect.errors import printable
from recollect.reports.live.terminal import Printable, silence
from recollect.reports.live.terminal import say as say
from recollect.reports.live.terminal import write as write

MOST_COMPLAINTS = 5


def complain(text: str) -> None:
    """Where nobody can read it there is nothing else to do."""
    try:
        print(f"recollect: {printable(text)}", file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def complain_some(lines: Sequence[str]) -> None:
    """The first of many complaints, and how many more there are."""
    for line in lines[:MOST_COMPLAINTS]:
        complain(line)
    if len(lines) > MOST_COMPLAINTS:
        complain(f"and {len(lines) - MOST_COMPLAINTS} more of that kind")


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
