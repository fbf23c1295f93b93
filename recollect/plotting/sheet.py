"""A figure for print: a grid of panels, with a title above and a legend and the small print below.

It is small enough for a printed page. The panels keep their size and the sheet grows around them,
unless a frame sets the size of the whole: the panels then take the space that is left.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import NullFormatter

from recollect.analysis import Cell, rate_text
from recollect.errors import SpecError
from recollect.plotting.colours import FAINT, INK, NO_RESULT, LineStyle
from recollect.plotting.layout import SteadyLayout
from recollect.plotting.settings import DOTTED, SPARSELY_DOTTED
from recollect.plotting.text import LONGEST_LINE, plain, printable, write, write_wrapped

# Inches, measured with matplotlib's font: it reports text sizes only after drawing.
SMALL_PRINT, LETTER_INCHES, LINE_INCHES = 6.5, 0.052, 0.125  # of the text below a figure
TITLE_LETTER, TITLE_LINE, NOTE_LETTER = 0.083, 0.16, 0.042
LEAST_PANEL = 0.9  # height of a panel including its title and ticks
LEGEND_LETTER, LEGEND_HANDLE, LEGEND_LINE = 0.068, 0.52, 0.17
# The mark of a run that diverged.
CROSS: dict[str, Any] = {"marker": "x", "ms": 5.5, "mew": 1.1, "ls": "", "zorder": 5}
HATCH = "//////"
POSITION_ALONE = "position alone"
LegendEntry = tuple[Artist, str]


@dataclass(frozen=True)
class Frame:
    """The look of a sheet as a whole; sizes are in inches, None means what the panels need."""

    width: float | None = None
    height: float | None = None
    title: bool = True
    caption: bool = True


WHOLE = Frame()
_FRAME: ContextVar[Frame] = ContextVar("frame", default=WHOLE)
# The function that makes figures: matplotlib's class, which registers them nowhere, or pyplot's,
# which shows them.
_MAKER: ContextVar[Callable[..., Figure]] = ContextVar("maker", default=Figure)


@contextmanager
def framed(frame: Frame) -> Iterator[None]:
    """Give every sheet that is made within the context this frame."""
    before = _FRAME.set(frame)
    try:
        yield
    finally:
        _FRAME.reset(before)


@contextmanager
def figures_by(make: Callable[..., Figure]) -> Iterator[None]:
    """Make every figure within the context with `make`, called with its `figsize`."""
    before = _MAKER.set(make)
    try:
        yield
    finally:
        _MAKER.reset(before)


def columns_for(panels: int, panel_width: float, most: int = 3) -> int:
    """Return how many panels fit side by side within the frame's width or a page."""
    width = _FRAME.get().width
    fitting = most if width is None else max(1, int((width + 0.05) / panel_width))
    return min(panels, fitting)


def panel_grid(
    rows: int, columns: int, panel: tuple[float, float], **options: Any
) -> tuple[Figure, Any]:
    """Return a figure and its axes[row, column]; `panel` is the size of one panel in inches,
    reduced if the frame has not enough room.
    """
    width = _FRAME.get().width or max(3.4, panel[0] * columns)
    figure = _MAKER.get()(figsize=(width, panel[1] * rows))
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def finish(
    figure: Figure,
    title: str,
    entries: Sequence[LegendEntry],
    small_print: Sequence[str],
    gap: float = 0.02,
    least: float = 0.0,
) -> Figure:
    """Put title, legend and small print around the panels.

    `gap` is the space between panels side by side, as a fraction of their width. `least` is the
    height in inches below which the panels could not be read.
    """
    frame = _FRAME.get()
    width, panels = figure.get_size_inches()
    if frame.width is not None:
        width = frame.width
    elif frame.title:
        width = max(width, len(title) * TITLE_LETTER + 0.15)
    per_row = _legend_columns([name for _, name in entries], width)
    headings = _wrapped([title] if frame.title else [], width, TITLE_LETTER)
    lines = _wrapped(small_print if frame.caption else [], width, LETTER_INCHES)
    legend_inches = math.ceil(len(entries) / per_row) * LEGEND_LINE + 0.08
    print_inches = len(lines) * LINE_INCHES + 0.06
    below = legend_inches + print_inches
    above = len(headings) * TITLE_LINE + 0.1 if headings else 0.02
    if frame.height is not None:
        panels = frame.height - below - above
        _require_room(figure, panels, below + above, least)
    whole = panels + below + above
    figure.set_size_inches(width, whole)
    figure.set_layout_engine(
        SteadyLayout(rect=(0, below / whole, 1, panels / whole), w_pad=0.04, h_pad=0.04, wspace=gap)
    )
    for number, line in enumerate(headings):
        y = 1 - (0.06 + number * TITLE_LINE) / whole
        heading = figure.text(0.06 / width, y, " ", va="top", weight="bold", size=9)
        write(heading, line, LONGEST_LINE)
    if entries:
        _draw_legend(figure, entries, per_row, below / whole)
    for number, line in enumerate(lines):
        y = (print_inches - 0.03 - number * LINE_INCHES) / whole
        figure.text(
            0.06 / width, y, line, size=SMALL_PRINT, color=FAINT, va="top", parse_math=False
        )
    return figure


def _legend_columns(names: Sequence[str], width: float) -> int:
    """Return how many columns fit; names fill the columns, each as wide as its longest name."""
    for columns in range(len(names), 1, -1):
        parts = np.array_split([len(plain(name)) for name in names], columns)
        if sum(LEGEND_HANDLE + LEGEND_LETTER * max(part) for part in parts) <= width:
            return columns
    return 1


def _wrapped(texts: Iterable[str], width: float, letter: float) -> list[str]:
    letters = max(20, int((width - 0.1) / letter))
    return [line for text in texts for line in textwrap.wrap(printable(text), letters)]


def _require_room(figure: Figure, panels: float, around: float, least: float) -> None:
    """Raise SpecError if a frame leaves the panels too little height to be read."""
    grids = {grid.get_gridspec() for ax in figure.axes if (grid := ax.get_subplotspec())}
    least = max(least, LEAST_PANEL * max((grid.nrows for grid in grids), default=1))
    if panels < least:
        raise SpecError(
            f"--size: {panels + around:.2g} inches of height leave {max(panels, 0):.2g} for the "
            f"panels, which need {least:.2g};\n"
            f"give at least {around + least:.1f}, or the width alone"
        )


def _draw_legend(
    figure: Figure, entries: Sequence[LegendEntry], per_row: int, height: float
) -> None:
    # Names are set afterwards: matplotlib interprets underscores and dollar signs in labels.
    legend = figure.legend(
        [handle for handle, _ in entries],
        ["-"] * len(entries),
        ncols=per_row,
        frameon=False,
        handlelength=2.6,
        loc="upper center",
        bbox_to_anchor=(0.5, height),
        borderpad=0.1,
        borderaxespad=0,
        columnspacing=1.4,
    )
    for text, (_, name) in zip(legend.get_texts(), entries, strict=True):
        write(text, name)


# ---- inside a panel ----


def panel_title(ax: Axes, title: str, note: str = "") -> None:
    """Set the title of a panel and, in small print below it, a note on what is missing there."""
    write_wrapped(ax.set_title(" ", loc="left", pad=11 if note else 4), title, _inches(ax))
    if note:
        # In points: with an offset relative to the height, the note would overlap a low panel.
        label = ax.annotate(
            " ",
            (0, 1),
            xytext=(0, 3),
            xycoords="axes fraction",
            textcoords="offset points",
            size=5.8,
            color=FAINT,
            label="note",
        )
        write(label, note, int(_inches(ax) / NOTE_LETTER))


def rate_axis(ax: Axes, low: float, high: float) -> None:
    """Make a log axis of learning rates with a small margin and labels as the tables write them."""
    ax.set_xscale("log")
    ax.set_xlim(low / 1.25, high * 1.25)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if high / low > 50 else (1, 3)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    shown = [tick for tick in ticks if low / 1.25 <= tick <= high * 1.25] or [low]
    ax.set_xticks(shown, [rate_text(tick) for tick in shown])
    # Within a decade matplotlib would also label some minor ticks, in another format.
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("learning rate")


def score_axis(ax: Axes, label: str) -> None:
    """Make an axis of scores from 0 to 1 with room for a mark at both ends."""
    ax.set_ylim(-0.05, 1.06)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
    ax.spines["left"].set_bounds(0, 1)
    if label:
        ax.set_ylabel(label)


def draw_floors(ax: Axes, cells: Sequence[Cell]) -> None:
    """Draw a dotted line at each level of chance, and a sparsely dotted one where position alone
    gives more than chance.
    """
    chances = sorted({cell.chance for cell in cells})
    beyond = {cell.position_only for cell in cells if cell.position_helps}
    for level in chances:
        ax.axhline(level, color=FAINT, lw=1.1, ls=DOTTED, zorder=1)
    for level in sorted(beyond):
        ax.axhline(level, color=FAINT, lw=1.1, ls=SPARSELY_DOTTED, zorder=1, label=POSITION_ALONE)


def mark_missing(ax: Axes, text: str, low: float = 0.0, high: float = 1.0) -> None:
    """Hatch a part without a result, from `low` to `high` of the axes' width, and label it."""
    ax.add_patch(Rectangle((low, 0), high - low, 1, transform=ax.transAxes, zorder=0, **_hatched()))
    turn = 0 if (high - low) * _inches(ax) > 0.7 else 90
    label = ax.text((low + high) / 2, 0.5, " ", transform=ax.transAxes, rotation=turn, color=INK)
    label.set(
        size=6.5, ha="center", va="center", bbox={"fc": "white", "ec": "none", "pad": 1.2}, zorder=1
    )
    write(label, text)


def _hatched() -> dict[str, Any]:
    return {"fill": False, "hatch": HATCH, "ec": NO_RESULT, "lw": 0}


def _inches(ax: Axes) -> float:
    """Return roughly how wide the axes will be."""
    figure = ax.get_figure()
    assert figure is not None
    grid = ax.get_subplotspec()
    columns = grid.get_gridspec().ncols if grid else 1
    return 0.8 * float(figure.get_figure(root=True).get_size_inches()[0]) / columns


# ---- legends ----


def line_handle(style: LineStyle, marked: bool = True) -> Line2D:
    """Return a line as a legend shows it."""
    marker = style.marker if marked else ""
    return Line2D([], [], color=style.colour, ls=style.stroke, marker=marker, ms=3.6, lw=1.3)


def drawn_lines(figure: Figure) -> list[Line2D]:
    """Return all lines that have a point."""
    return [line for ax in figure.axes for line in ax.get_lines() if np.size(line.get_xdata())]


def marks(figure: Figure) -> list[LegendEntry]:
    """Return legend entries for the marks that all figures share: chance, and others that occur."""
    entries: list[LegendEntry] = [(Line2D([], [], color=FAINT, lw=1.1, ls=DOTTED), "chance")]
    if any(line.get_label() == POSITION_ALONE for line in drawn_lines(figure)):
        floor = Line2D([], [], color=FAINT, lw=1.1, ls=SPARSELY_DOTTED)
        entries.append((floor, POSITION_ALONE))
    if any(line.get_marker() == CROSS["marker"] for line in drawn_lines(figure)):
        entries.append((Line2D([], [], color=FAINT, **CROSS), "diverged run"))
    if any(patch.get_hatch() == HATCH for ax in figure.axes for patch in ax.patches):
        entries.append((Patch(**_hatched()), "not run, or no result"))
    return entries
