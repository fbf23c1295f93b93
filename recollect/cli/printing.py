"""Output of the command line: plain lines, complaints on standard error, tables."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from recollect.errors import printable
from recollect.reports.live.terminal import Printable, silence
from recollect.reports.live.terminal import say as say
from recollect.reports.live.terminal import write as write

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Column, Table

MOST_COMPLAINTS = 2


def complain(text: str) -> None:
    """Print a line on standard error; if that is closed, there is no other place to report it."""
    try:
        print(f"recollect: {printable(text)}", file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def complain_some(lines: Sequence[str], most: int = MOST_COMPLAINTS) -> None:
    """Print the first of many complaints, and how many more there are."""
    for line in lines[:most]:
        complain(line)
    if len(lines) > most:
        complain(f"and {len(lines) - most} more of that kind")


def show_step(text: str, is_last: bool = True) -> None:
    """On a terminal, print a line on standard error; the next overwrites all but the last one."""
    if sys.stderr.isatty():
        print(f"\r{text}", end="\n" if is_last else "", file=sys.stderr, flush=True)


def show_written(runs: int, of: int) -> None:
    """On a terminal, show how far an export has come."""
    show_step(f"{runs:,} of {of:,} runs written", is_last=runs == of)


def render(renderable: Any) -> None:
    """Print a table, or something else that rich can draw."""
    from rich.console import Console, Group
    from rich.table import Table

    # A pipe gets whole lines. They are written by `write`, since rich would end the process if the
    # pipe is closed.
    width = None if sys.stdout.isatty() else 200
    console = Console(width=width, markup=False, emoji=False)  # cells say what others wrote
    parts = renderable.renderables if isinstance(renderable, Group) else [renderable]
    if sys.stdout.isatty():
        parts = [part for whole in parts for part in notes_below(whole, console)]
    taken = [fit_columns(part, console) for part in parts if isinstance(part, Table)]
    console.width = max([console.width, *taken])
    with console.capture() as drawn:
        console.print(Printable(Group(*parts)))
    write(drawn.get())


def notes_below(part: Any, console: "Console") -> list[Any]:
    """Split a NotedTable that is too wide: each row is a table, and its note is a text below it.

    The widths are those that the columns have together.
    """
    from rich.measure import Measurement
    from rich.padding import Padding

    from recollect.cli.tables import PLAIN, NotedTable, plain_table

    endless = console.options.update(width=sys.maxsize)
    if not isinstance(part, NotedTable) or (
        Measurement.get(console, endless, part).maximum <= console.width
    ):
        return [part]
    rows = list(zip(*(column.cells for column in part.columns), strict=True))
    upper = plain_table(*(str(column.header) for column in part.columns[:-1]))
    for *cells, _ in rows:
        upper.add_row(*cells)
    fit_columns(upper, console)
    found: list[Any] = []
    for *cells, note in rows:
        line = type(upper)(show_header=not found, **PLAIN)
        for column in upper.columns:
            line.add_column(column.header, width=column.width)
        line.add_row(*cells)
        found += [line, Padding(note, (0, 0, 0, 2))]
    return found


def fit_columns(table: "Table", console: "Console") -> int:
    """Choose the widths of a table so that no name or number is cut off; rich itself would cut
    them.

    Headings are broken into lines first, then the widest columns. Return the width of the table,
    which may exceed the console's. A table with widths of its own is left as it is.
    """
    if any(column.width or column.ratio for column in table.columns):
        return 0
    spans = [_spans(column, console) for column in table.columns]
    padding = (table.padding[1] + table.padding[3]) * len(spans)
    wanted = [span.whole for span in spans]
    for least in ([span.body for span in spans], [span.word for span in spans]):
        wanted = _narrowed(wanted, least, console.width - padding)
    for column, width in zip(table.columns, wanted, strict=True):
        column.width, column.no_wrap = width, False
    return sum(wanted) + padding


class _Spans(NamedTuple):
    """Widths of a column: all in one line, with its heading broken, with everything broken."""

    whole: int
    body: int
    word: int


def _spans(column: "Column", console: "Console") -> _Spans:
    from rich.measure import Measurement

    endless = console.options.update(width=sys.maxsize)
    heading = Measurement.get(console, endless, column.header)
    cells = [Measurement.get(console, endless, cell) for cell in column.cells]
    body = max([heading.minimum, *(cell.maximum for cell in cells)])
    word = max([heading.minimum, *(cell.minimum for cell in cells)])
    return _Spans(max(heading.maximum, body), body, word)


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Reduce the widths, the widest column first, until they fit into `room` or reach `least`."""
    found = list(widths)
    while sum(found) > room:
        loose = [place for place, width in enumerate(found) if width > least[place]]
        if not loose:
            break
        found[max(loose, key=lambda place: found[place])] -= 1
    return found
