"""The paper a figure is drawn on: a grid of panels, a title above, a legend and the small print
below.

Small enough for a printed page, in colours that a colour-blind reader tells apart; markers and
dashes say the same in grey.
"""

import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Text

from recollect.analysis import Cell
from recollect.reports.page.style import DOTTED, FAINT, INK, SETTINGS, plain, write
from recollect.reports.paper.figures.places import Place, recipe_text
from recollect.reports.paper.figures.question import Question

STYLE: dict[Any, Any] = {
    **SETTINGS,
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.7,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,  # whole outlines embedded: journals refuse Type 3
    "svg.fonttype": "path",  # looks the same wherever it is opened
}
SMALL_PRINT, LETTER_INCHES, LINE_INCHES = 6.5, 0.052, 0.125  # of the text below a figure
TITLE_LETTER, NAME_LETTER = 0.083, 0.062
LEGEND_LETTER, LEGEND_HANDLE, LEGEND_LINE = 0.068, 0.52, 0.17
SCORE_LABELS = {"exact": "exact match", "accuracy": "accuracy"}
BAND_WORDS = {
    "min-max": "band: lowest to highest seed",
    "std": "band: one standard deviation over seeds",
    "interval": "band: 95 % interval of the mean over seeds",
}
CROSS: dict[str, Any] = {
    "marker": "x",
    "ms": 5.5,
    "mew": 1.1,
    "ls": "",
    "zorder": 5,
}  # a run that diverged
HATCH = "//////"
Entry = tuple[Artist, str]


@contextmanager
def paper_style() -> Iterator[None]:
    """matplotlib's settings for as long as a figure is made or written."""
    with matplotlib.rc_context(STYLE):
        yield


def put(label: Text, text: str, most: int = 160) -> None:
    """A text of one line, longer than a name may be; as `write` it gives no meaning to any letter."""
    label.set_parse_math(False)
    text = " ".join(_printable(text).split())
    label.set_text(text if len(text) <= most else text[: most - 1] + "…")


def panel_title(ax: Axes, title: str, note: str = "") -> None:
    """The title of a panel and, in small print between it and the panel, what is missing there."""
    wrap(ax.set_title(" ", loc="left", pad=11 if note else 4), title, _inches(ax))
    if note:
        put(
            ax.text(0, 1.015, " ", transform=ax.transAxes, size=5.8, color=FAINT, label="note"),
            note,
            int(_inches(ax) / 0.042),
        )


def wrap(label: Text, text: str, inches: float) -> None:
    """A name in as many lines as it takes to stay within so many inches."""
    label.set_parse_math(False)
    label.set_text("\n".join(textwrap.wrap(plain(text), max(12, int(inches / NAME_LETTER)))))


def share_text(share: float) -> str:
    """Two decimals, and never 1.00 for what is not perfect."""
    return "1.00" if share == 1 else f"{min(share, 0.994):.2f}"


def panel_grid(
    rows: int, columns: int, panel: tuple[float, float], **options: Any
) -> tuple[Figure, Any]:
    """A figure and its axes[row, column]; `panel` is the size of one in inches."""
    figure = Figure(figsize=(max(3.4, panel[0] * columns), panel[1] * rows))
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def finish(
    figure: Figure, title: str, entries: Sequence[Entry], small_print: Sequence[str]
) -> Figure:
    """Put title, legend and small print around the panels, which keep their size."""
    width, height = figure.get_size_inches()
    width = max(width, len(title) * TITLE_LETTER)
    per_row = max(
        1,
        int(
            width
            / (LEGEND_HANDLE + LEGEND_LETTER * max((len(name) for _, name in entries), default=1))
        ),
    )
    legend_lines = math.ceil(len(entries) / per_row)
    lines = [
        line
        for text in small_print
        for line in textwrap.wrap(_printable(text), int((width - 0.1) / LETTER_INCHES))
    ]
    legend_inches, print_inches = legend_lines * LEGEND_LINE + 0.08, len(lines) * LINE_INCHES + 0.06
    below, above = legend_inches + print_inches, 0.26
    whole = height + below + above
    figure.set_size_inches(width, whole)
    figure.set_layout_engine(
        "constrained", rect=(0, below / whole, 1, height / whole), w_pad=0.04, h_pad=0.04
    )
    put(figure.text(0.06 / width, 1 - 0.06 / whole, " ", va="top", weight="bold", size=9), title)
    if entries:
        # Names are put in afterwards: matplotlib gives meaning to underscores and dollar signs in
        # labels.
        legend = figure.legend(
            [handle for handle, _ in entries], ["-"] * len(entries), ncols=per_row, frameon=False, handlelength=2.6,
            loc="upper center", bbox_to_anchor=(0.5, below / whole), borderpad=0.1, borderaxespad=0, columnspacing=1.4,
        )  # fmt: skip
        for text, (_, name) in zip(legend.get_texts(), entries, strict=True):
            write(text, name)
    for number, line in enumerate(lines):
        y = (print_inches - 0.03 - number * LINE_INCHES) / whole
        figure.text(
            0.06 / width, y, line, size=SMALL_PRINT, color=FAINT, va="top", parse_math=False
        )
    return figure


def small_print(question: Question, places: Sequence[Place], band: str) -> list[str]:
    """What every figure says about its runs: how many, what the band is, the recipe, who is absent."""
    rows = [row for place in places for row in place.cell.rows]
    scored = sum(place.cell.scored_runs for place in places)
    diverged = sum(row.status == "diverged" for row in rows)
    seeds = max((len(rate.scores) for place in places for rate in place.cell.rates), default=0)
    averaged = f"Mean over {seeds} seeds, {BAND_WORDS[band]}." if seeds > 1 else "One seed."
    ended = (
        f"{scored} of {len(rows)} planned runs have a result, {diverged} of "
        "them diverged (counted at chance)."
    )
    absent = question.absent(places)
    return [
        f"{averaged} {ended}" + (f" Not run: {', '.join(absent)}." if absent else ""),
        f"Recipe: {recipe_text(places)}.",
    ]


def mark_missing(ax: Axes, text: str, low: float = 0.0, high: float = 1.0) -> None:
    """Hatch what has no result, over the share `low` to `high` of the axes' width, and say why."""
    ax.add_patch(
        Rectangle(
            (low, 0),
            high - low,
            1,
            transform=ax.transAxes,
            fill=False,
            hatch=HATCH,
            ec="#c4c4c4",
            lw=0,
            zorder=0,
        )
    )
    turn = 0 if (high - low) * _inches(ax) > 0.7 else 90
    label = ax.text(
        (low + high) / 2,
        0.5,
        " ",
        transform=ax.transAxes,
        ha="center",
        va="center",
        rotation=turn,
        color=INK,
    )
    label.set(size=6.5, bbox={"fc": "white", "ec": "none", "pad": 1.2}, zorder=1)
    write(label, text)


def why_missing(cell: Cell | None) -> str:
    """A cell without a result was never planned, or has not ended well."""
    return "not run" if cell is None else "no result"


def score_axis(ax: Axes, label: str) -> None:
    """Scores from 0 to 1 with room for a mark at both ends."""
    ax.set_ylim(-0.05, 1.06)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
    ax.spines["left"].set_bounds(0, 1)
    if label:
        ax.set_ylabel(label)


def score_label(places: Sequence[Place]) -> str:
    return " / ".join(
        dict.fromkeys(
            SCORE_LABELS.get(place.cell.score_name, place.cell.score_name) for place in places
        )
    )


def draw_chance(ax: Axes, cells: Sequence[Cell]) -> None:
    for chance in sorted({cell.chance for cell in cells}):
        ax.axhline(chance, color=FAINT, lw=1.1, ls=DOTTED, zorder=1)


def drawn_lines(figure: Figure) -> list[Line2D]:
    """All lines that have a point."""
    return [line for ax in figure.axes for line in ax.get_lines() if np.size(line.get_xdata())]


def marks(figure: Figure) -> list[Entry]:
    """What a legend says about the marks that all figures share: chance, and those of the others
    that occur.
    """
    entries: list[Entry] = [(Line2D([], [], color=FAINT, lw=1.1, ls=DOTTED), "chance")]
    if any(line.get_marker() == CROSS["marker"] for line in drawn_lines(figure)):
        entries.append((Line2D([], [], color=FAINT, **CROSS), "diverged run"))
    if any(patch.get_hatch() == HATCH for ax in figure.axes for patch in ax.patches):
        entries.append(
            (Patch(fill=False, hatch=HATCH, ec="#c4c4c4", lw=0), "not run, or no result")
        )
    return entries


def _inches(ax: Axes) -> float:
    figure = ax.get_figure()
    assert figure is not None
    grid = ax.get_subplotspec()
    columns = grid.get_gridspec().ncols if grid else 1
    return 0.8 * float(figure.get_figure(root=True).get_size_inches()[0]) / columns


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
