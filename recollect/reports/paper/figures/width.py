"""Score against width (Figs 2, 11): the best of four rates, the best of a finer search, and the
published values.

There is a row of panels per model and a column per task. Stars are the official Zoology values. The
dotted line is the best of Zoology's four rates (drawn where all four have a result), the solid line
the best of all rates tried.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recollect.analysis import Curves, Rate, band, get_setting, sparse_best
from recollect.plotting import sheet
from recollect.plotting.colours import PALETTE
from recollect.plotting.settings import print_style
from recollect.plotting.text import write_wrapped
from recollect.reports.paper.figures import captions
from recollect.reports.paper.figures.definition import FigureDefinition, select_cells
from recollect.reports.paper.figures.figure_cells import FigureCell
from recollect.reports.paper.zoology import Star, star
from recollect.rows import RunRow
from recollect.spec.recipes.label import VOCABULARY

PANEL = (1.9, 1.35)
SPARSE: dict[str, Any] = {
    "color": PALETTE[0],
    "ls": (0, (1, 1.2)),
    "marker": "o",
    "ms": 4.2,
    "lw": 1.5,
}
FINE: dict[str, Any] = {"color": PALETTE[1], "ls": "-", "marker": "s", "ms": 3.2, "lw": 1.3}
STAR: dict[str, Any] = {
    "color": PALETTE[2],
    "ls": "",
    "marker": "*",
    "ms": 8,
    "mec": "white",
    "mew": 0.4,
    "zorder": 4,
}
# A star that was estimated because another marker hides it.
HIDDEN_STAR: dict[str, Any] = {**STAR, "mfc": "white", "mec": PALETTE[2], "mew": 0.7}


def draw(definition: FigureDefinition, rows: Sequence[RunRow], curves: Curves, kind: str) -> Figure:
    """Draw the figure. Every model of the definition has a row, even if it was not run."""
    cells, left_out = select_cells(definition, rows)
    columns = list(dict.fromkeys(cell.column for cell in cells))
    models = definition.models(cells)
    widths = sorted({cell.width for cell in cells})
    with print_style():
        figure, axes = sheet.panel_grid(len(models), len(columns), PANEL, sharey=True, sharex=True)
        for row, model in enumerate(models):
            for column, task in enumerate(columns):
                here = {
                    cell.width: cell
                    for cell in cells
                    if cell.model == model and cell.column == task
                }
                _draw_panel(axes[row, column], here, widths, kind)
                if row == 0:
                    sheet.panel_title(
                        axes[row, column],
                        next(cell.task for cell in cells if cell.column == task),
                    )
                if row == len(models) - 1:
                    axes[row, column].set_xlabel("width")
            write_wrapped(axes[row, 0].set_ylabel(" "), model, PANEL[1])
        drawn = {str(line.get_label()) for line in sheet.drawn_lines(figure)}
        lines: dict[str, sheet.LegendEntry] = {
            "official": (Line2D([], [], **STAR), "official Zoology value"),
            "official, hidden": (Line2D([], [], **HIDDEN_STAR), "official, half hidden there"),
            "sparse": (Line2D([], [], **SPARSE), "best of Zoology's four rates"),
            "fine": (Line2D([], [], **FINE), "best of all rates tried"),
        }
        entries = [entry for label, entry in lines.items() if label in drawn] + sheet.marks(figure)
        axis = f"Vertical axis: {captions.score_label(cells)}."
        if drawn & {"official", "official, hidden"}:
            axis += " Official values: digitised; all but attention had 4 layers."
        if "sparse" not in drawn:
            axis += (
                " Nowhere have all of Zoology's four rates a result, so there is no dotted line."
            )
        return sheet.finish(
            figure,
            definition.title,
            entries,
            [axis, *captions.small_print(definition, cells, kind, left_out)],
        )


def _draw_panel(ax: Axes, here: dict[int, FigureCell], widths: Sequence[int], kind: str) -> None:
    sheet.score_axis(ax, "")
    width_axis(ax, widths)
    for number, width in enumerate(widths):
        if width not in here or here[width].runs.best is None:
            reason = captions.why_missing(here[width].runs if width in here else None)
            sheet.mark_missing(ax, reason, number / len(widths), (number + 1) / len(widths))
    sheet.draw_floors(ax, [cell.runs for cell in here.values()])
    by_number = {widths.index(width): cell for width, cell in here.items()}
    fine = {number: cell.runs.best for number, cell in by_number.items()}
    sparse = {number: sparse_best(cell.runs) for number, cell in by_number.items()}
    _draw_line(ax, fine, kind, FINE, "fine")
    _draw_line(ax, sparse, kind, SPARSE, "sparse")
    stars = {
        number: found
        for number, cell in by_number.items()
        if (found := _official(cell)) is not None
    }
    for hidden, style in ((False, STAR), (True, HIDDEN_STAR)):
        x = [x for x, found in stars.items() if found.hidden is hidden]
        ax.plot(
            x,
            [stars[at].accuracy for at in x],
            label="official, hidden" if hidden else "official",
            **style,
        )


def width_axis(ax: Axes, widths: Sequence[int]) -> None:
    """Place the widths at equal distances, regardless of their values."""
    ax.set_xlim(-0.5, len(widths) - 0.5)
    ax.set_xticks(range(len(widths)), [str(width) for width in widths])


def _draw_line(
    ax: Axes, found: Mapping[int, Rate | None], kind: str, style: dict[str, Any], label: str
) -> None:
    """Draw mean and band at every width. A line ends where the next width has no result."""
    if not any(found.values()):
        return
    x = range(max(found, default=0) + 1)
    rates = [found.get(at) for at in x]
    bands = [band(rate.scores, kind) if rate else (math.nan, math.nan) for rate in rates]
    lows, highs = [low for low, _ in bands], [high for _, high in bands]
    ax.fill_between(x, lows, highs, color=style["color"], alpha=0.16, lw=0, label=f"band {label}")
    # The band of an isolated point has no area, so a vertical line shows it.
    ax.vlines(x, lows, highs, color=style["color"], lw=0.8, alpha=0.6)
    ax.plot(
        x,
        [rate.mean if rate else math.nan for rate in rates],
        label=label,
        mec="white",
        mew=0.4,
        **style,
    )
    lost = [(at, row.score or 0.0) for at in x if (rate := rates[at]) for row in rate.diverged]
    ax.plot(
        [x for x, _ in lost],
        [y for _, y in lost],
        color=style["color"],
        label=f"diverged {label}",
        **sheet.CROSS,
    )


def _official(cell: FigureCell) -> Star | None:
    """The published value for the same task and width, if the vocabulary is the study's."""
    if get_setting(cell.runs.rows[0], "task.vocabulary") != VOCABULARY:
        return None
    length, pairs = cell.size
    return star(cell.mixer, length, pairs, cell.width)
