"""Best score by width and length as a map of numbers (Figs 3, 12), one panel per model; what was
not run is hatched.
"""

import textwrap
from collections.abc import Sequence

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from recollect.analysis import band
from recollect.reports.page.style import INK, plain
from recollect.reports.paper.figures import sheet
from recollect.reports.paper.figures.places import Curves, Place
from recollect.reports.paper.figures.question import Question, ask
from recollect.rows import RunRow

CELL = (0.56, 0.44)  # inches
LEAST_WIDTH = 1.6  # of a panel, for its title
HEIGHT = 0.52  # of what stands around a panel, and LINE more for every further line of its title
LETTER, LINE = 0.06, 0.14
COLOUR_BAR = 0.75
TASK_LETTERS = 24  # of a line in a task's name
MOST_COLUMNS = 3
COLOURS = colormaps["cividis"]  # equally bright steps, in grey as well


def draw(question: Question, rows: Sequence[RunRow], curves: Curves, kind: str) -> Figure:
    """All panels have the same axes, so that a map with holes shows them."""
    places = ask(question, rows)
    tasks = {place.column: place for place in places}
    widths = sorted({place.width for place in places})
    models = question.models(places)
    columns = min(MOST_COLUMNS, len(models))
    lines = -(-len(models) // columns)
    names = [
        "\n".join(textwrap.wrap(plain(_short(place)), TASK_LETTERS)) for place in tasks.values()
    ]
    beside = LETTER * max(len(line) for name in names for line in name.split("\n")) + COLOUR_BAR
    width = max(LEAST_WIDTH, CELL[0] * len(widths) + 0.25)
    title_lines = -(-LETTER * max(len(plain(model)) for model in models) // (0.75 * width)) - 1
    panel = (width + beside / columns, CELL[1] * len(tasks) + HEIGHT + LINE * title_lines)
    with sheet.paper_style():
        figure, axes = sheet.panel_grid(lines, columns, panel)
        for number, ax in enumerate(axes.flat):
            if number >= len(models):
                ax.set_axis_off()
                continue
            here = {
                (place.column, place.width): place
                for place in places
                if place.model == models[number]
            }
            for line, column in enumerate(tasks):
                for place, width in enumerate(widths):
                    _draw_square(ax, place, line, here.get((column, width)), kind)
            _finish_axes(ax, widths, names, number % columns == 0)
            sheet.panel_title(ax, models[number])
        bar = figure.colorbar(
            ScalarMappable(Normalize(0, 1), COLOURS), ax=list(axes.flat), aspect=30, pad=0.015
        )
        bar.outline.set_visible(False)
        bar.set_label(sheet.score_label(places))
        words = sheet.small_print(question, places, kind)
        how = (
            "Numbers: best mean over the rates tried, below it the "
            "band; a "
            "cross counts diverged runs at that rate."
        )
        return sheet.finish(figure, question.title, sheet.marks(figure)[1:], [how, *words])


def _draw_square(ax: Axes, x: int, y: int, place: Place | None, kind: str) -> None:
    best = place.cell.best if place else None
    if best is None:
        ax.add_patch(
            Rectangle(
                (x - 0.5, y - 0.5),
                1,
                1,
                fill=False,
                hatch=sheet.HATCH,
                ec="#c4c4c4",
                lw=0,
                label="missing",
            )
        )
        reason = sheet.why_missing(place.cell if place else None).replace(" ", "\n")
        ax.text(
            x,
            y,
            reason,
            ha="center",
            va="center",
            size=5.5,
            bbox={"fc": "white", "ec": "none", "pad": 0.8},
        )
        return
    ax.add_patch(
        Rectangle(
            (x - 0.5, y - 0.5), 1, 1, fc=COLOURS(best.mean), ec="white", lw=0.6, label="score"
        )
    )
    ink = "white" if best.mean < 0.5 else INK
    low, high = band(best.scores, kind)
    ax.text(x, y - 0.12, sheet.share_text(best.mean), ha="center", va="center", size=7, color=ink)
    if len(best.scores) > 1:
        ax.text(
            x,
            y + 0.24,
            f"{sheet.share_text(low)}-{sheet.share_text(high)}",
            ha="center",
            va="center",
            size=4.8,
            color=ink,
        )
    diverged = sum(row.status == "diverged" for row in best.scored)
    if diverged:
        ax.plot([x + 0.32], [y - 0.32], color=ink, label="diverged", **{**sheet.CROSS, "ms": 3.5})
        ax.text(x + 0.2, y - 0.32, str(diverged), ha="right", va="center", size=4.8, color=ink)


def _finish_axes(ax: Axes, widths: Sequence[int], tasks: Sequence[str], is_first: bool) -> None:
    """All panels have the same axes; tasks are named at the first of a row."""
    ax.set_xlim(-0.5, len(widths) - 0.5)
    ax.set_ylim(len(tasks) - 0.5, -0.5)
    ax.set_xticks(range(len(widths)), [str(width) for width in widths])
    ax.set_yticks(range(len(tasks)), tasks if is_first else [""] * len(tasks), parse_math=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("width")


def _short(place: Place) -> str:
    """Length and pairs as the study writes them."""
    return ", ".join(
        filter(None, [f"({', '.join(str(number) for number in place.size)})", place.recipe])
    )
