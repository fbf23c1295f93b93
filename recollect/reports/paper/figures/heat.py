"""Best score by width and length as a map of numbers (Figs 3, 12), one panel per model. Cells
without a result are hatched.
"""

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from recollect.analysis import Curves, band
from recollect.plotting import sheet
from recollect.plotting.colours import INK, NO_RESULT
from recollect.plotting.settings import print_style
from recollect.plotting.text import plain
from recollect.reports.paper.figures import captions
from recollect.reports.paper.figures.definition import FigureDefinition, select_cells
from recollect.reports.paper.figures.figure_cells import FigureCell
from recollect.rows import RunRow

CELL = (0.56, 0.44)  # inches
LEAST_WIDTH = 1.6  # the least width of a panel, so that its title fits
HEIGHT = 0.52  # space above and below a panel, plus LINE for every further line of its title
LETTER, LINE = 0.06, 0.14
COLOUR_BAR = 0.75
TASK_LETTERS = 24  # the most characters per line of a task's name
MOST_COLUMNS = 3
CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}
COLOURS = colormaps["cividis"]  # equally bright steps, in grey as well


def draw(definition: FigureDefinition, rows: Sequence[RunRow], curves: Curves, kind: str) -> Figure:
    """Draw the figure. All panels have the same axes, so that missing cells are visible."""
    cells, left_out = select_cells(definition, rows)
    tasks = {cell.column: cell for cell in cells}
    widths = sorted({cell.width for cell in cells})
    models = definition.models(cells)
    columns = min(MOST_COLUMNS, len(models))
    lines = -(-len(models) // columns)
    names = ["\n".join(textwrap.wrap(plain(_short(cell)), TASK_LETTERS)) for cell in tasks.values()]
    beside = LETTER * max(len(line) for name in names for line in name.split("\n")) + COLOUR_BAR
    width = max(LEAST_WIDTH, CELL[0] * len(widths) + 0.25)
    title_lines = -(-LETTER * max(len(plain(model)) for model in models) // (0.75 * width)) - 1
    panel = (width + beside / columns, CELL[1] * len(tasks) + HEIGHT + LINE * title_lines)
    with print_style():
        figure, axes = sheet.panel_grid(lines, columns, panel)
        for number, ax in enumerate(axes.flat):
            if number >= len(models):
                ax.set_axis_off()
                continue
            here = {
                (cell.column, cell.width): cell for cell in cells if cell.model == models[number]
            }
            for line, column in enumerate(tasks):
                for x, width in enumerate(widths):
                    _draw_square(ax, x, line, here.get((column, width)), kind)
            _finish_axes(ax, widths, names, number % columns == 0)
            sheet.panel_title(ax, models[number])
        bar = figure.colorbar(
            ScalarMappable(Normalize(0, 1), COLOURS), ax=list(axes.flat), aspect=30, pad=0.015
        )
        bar.outline.set_visible(False)
        bar.set_label(captions.score_label(cells))
        words = captions.small_print(definition, cells, kind, left_out)
        how = (
            "Numbers: best mean over the rates tried, below it the band; a cross counts diverged "
            "runs at that rate."
        )
        return sheet.finish(figure, definition.title, sheet.marks(figure)[1:], [how, *words])


def _draw_square(ax: Axes, x: int, y: int, cell: FigureCell | None, kind: str) -> None:
    best = cell.runs.best if cell else None
    corner = x - 0.5, y - 0.5
    if best is None:
        hatched: dict[str, Any] = {"fill": False, "hatch": sheet.HATCH, "ec": NO_RESULT, "lw": 0}
        ax.add_patch(Rectangle(corner, 1, 1, label="missing", **hatched))
        reason = captions.why_missing(cell.runs if cell else None).replace(" ", "\n")
        background = {"fc": "white", "ec": "none", "pad": 0.8}
        ax.text(x, y, reason, size=5.5, bbox=background, **CENTRED)
        return
    filled: dict[str, Any] = {"fc": COLOURS(best.mean), "ec": "white", "lw": 0.6}
    ax.add_patch(Rectangle(corner, 1, 1, label="score", **filled))
    ink = "white" if best.mean < 0.5 else INK
    low, high = map(captions.share_text, band(best.scores, kind))
    ax.text(x, y - 0.12, captions.share_text(best.mean), size=7, color=ink, **CENTRED)
    if len(best.scores) > 1:
        ax.text(x, y + 0.24, f"{low}-{high}", size=4.8, color=ink, **CENTRED)
    if best.diverged:
        count = str(len(best.diverged))
        ax.plot([x + 0.32], [y - 0.32], color=ink, label="diverged", **{**sheet.CROSS, "ms": 3.5})
        ax.text(x + 0.2, y - 0.32, count, ha="right", va="center", size=4.8, color=ink)


def _finish_axes(ax: Axes, widths: Sequence[int], tasks: Sequence[str], is_first: bool) -> None:
    """Set up the axes, which are the same in all panels. Only the first panel of a row names the
    tasks.
    """
    ax.set_xlim(-0.5, len(widths) - 0.5)
    ax.set_ylim(len(tasks) - 0.5, -0.5)
    ax.set_xticks(range(len(widths)), [str(width) for width in widths])
    ax.set_yticks(range(len(tasks)), tasks if is_first else [""] * len(tasks), parse_math=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("width")


def _short(cell: FigureCell) -> str:
    """Length and pairs in the study's notation, with the recipe if it differs."""
    return ", ".join(
        filter(None, [f"({', '.join(str(number) for number in cell.size)})", cell.recipe])
    )
