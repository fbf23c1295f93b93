"""Score against width (Figs 2, 11): what a search over four rates finds, what a finer one finds,
and what was published.

A row of panels per model, a column per task. Stars are the official Zoology values, the dotted line
the best of Zoology's four rates (drawn where all four have a result), the solid one the best of all
rates tried.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recollect.analysis import Rate, band, sparse_best, value
from recollect.reports.page.style import PALETTE
from recollect.reports.paper.figures import sheet
from recollect.reports.paper.figures.places import Curves, Place
from recollect.reports.paper.figures.question import Question, ask
from recollect.reports.paper.zoology import Star, star
from recollect.rows import RunRow

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
HIDDEN_STAR: dict[str, Any] = {
    **STAR,
    "mfc": "white",
    "mec": PALETTE[2],
    "mew": 0.7,
}  # read off behind another marker
VOCABULARY = 8192  # of the official experiment: with another one its values say nothing


def draw(question: Question, rows: Sequence[RunRow], curves: Curves, kind: str) -> Figure:
    """Every model of the question has its row, also one that was not run."""
    places = ask(question, rows)
    columns = list(dict.fromkeys(place.column for place in places))
    models = question.models(places)
    widths = sorted({place.width for place in places})
    with sheet.paper_style():
        figure, axes = sheet.panel_grid(len(models), len(columns), PANEL, sharey=True, sharex=True)
        for row, model in enumerate(models):
            for column, task in enumerate(columns):
                here = {
                    place.width: place
                    for place in places
                    if place.model == model and place.column == task
                }
                _draw_panel(axes[row, column], here, widths, kind)
                if row == 0:
                    sheet.panel_title(
                        axes[row, column],
                        next(place.task for place in places if place.column == task),
                    )
                if row == len(models) - 1:
                    axes[row, column].set_xlabel("width")
            sheet.wrap(axes[row, 0].set_ylabel(" "), model, PANEL[1])
        drawn = {str(line.get_label()) for line in sheet.drawn_lines(figure)}
        lines: dict[str, sheet.Entry] = {
            "official": (Line2D([], [], **STAR), "official Zoology value"),
            "official, hidden": (Line2D([], [], **HIDDEN_STAR), "official, half hidden there"),
            "sparse": (Line2D([], [], **SPARSE), "best of Zoology's four rates"),
            "fine": (Line2D([], [], **FINE), "best of all rates tried"),
        }
        entries = [entry for label, entry in lines.items() if label in drawn] + sheet.marks(figure)
        axis = f"Vertical axis: {sheet.score_label(places)}."
        if drawn & {"official", "official, hidden"}:
            axis += " Official values: digitised; all but attention had 4 layers."
        if "sparse" not in drawn:
            axis += (
                " Nowhere have all of Zoology's four rates a result, so there is no dotted line."
            )
        return sheet.finish(
            figure, question.title, entries, [axis, *sheet.small_print(question, places, kind)]
        )


def _draw_panel(ax: Axes, here: dict[int, Place], widths: Sequence[int], kind: str) -> None:
    sheet.score_axis(ax, "")
    width_axis(ax, widths)
    for place, width in enumerate(widths):
        if width not in here or here[width].cell.best is None:
            reason = sheet.why_missing(here[width].cell if width in here else None)
            sheet.mark_missing(ax, reason, place / len(widths), (place + 1) / len(widths))
    sheet.draw_chance(ax, [place.cell for place in here.values()])
    _draw_line(
        ax,
        {widths.index(width): place.cell.best for width, place in here.items()},
        kind,
        FINE,
        "fine",
    )
    _draw_line(
        ax,
        {widths.index(width): sparse_best(place.cell) for width, place in here.items()},
        kind,
        SPARSE,
        "sparse",
    )
    stars = {
        widths.index(width): found
        for width, place in here.items()
        if (found := _official(place)) is not None
    }
    for hidden, look in ((False, STAR), (True, HIDDEN_STAR)):
        x = [x for x, found in stars.items() if found.hidden is hidden]
        ax.plot(
            x,
            [stars[place].accuracy for place in x],
            label="official, hidden" if hidden else "official",
            **look,
        )


def width_axis(ax: Axes, widths: Sequence[int]) -> None:
    """Widths at equal distances, whatever they are."""
    ax.set_xlim(-0.5, len(widths) - 0.5)
    ax.set_xticks(range(len(widths)), [str(width) for width in widths])


def _draw_line(
    ax: Axes, found: Mapping[int, Rate | None], kind: str, look: dict[str, Any], label: str
) -> None:
    """Mean and band at every place; a line ends where the next place has no result."""
    if not any(found.values()):
        return
    places = range(max(found, default=0) + 1)
    rates = [found.get(place) for place in places]
    bands = [band(rate.scores, kind) if rate else (math.nan, math.nan) for rate in rates]
    lows, highs = [low for low, _ in bands], [high for _, high in bands]
    ax.fill_between(
        places, lows, highs, color=look["color"], alpha=0.16, lw=0, label=f"band {label}"
    )
    ax.vlines(
        places, lows, highs, color=look["color"], lw=0.8, alpha=0.6
    )  # a lone point's band has no area
    ax.plot(
        places,
        [rate.mean if rate else math.nan for rate in rates],
        label=label,
        mec="white",
        mew=0.4,
        **look,
    )
    lost = [
        (place, row.chance)
        for place in places
        if (rate := rates[place])
        for row in rate.scored
        if row.status == "diverged"
    ]
    ax.plot(
        [x for x, _ in lost],
        [y for _, y in lost],
        color=look["color"],
        label=f"diverged {label}",
        **sheet.CROSS,
    )


def _official(place: Place) -> Star | None:
    """The published value of the same task and width."""
    if value(place.cell.rows[0], "task.vocabulary") != VOCABULARY:
        return None
    length, pairs = place.size
    return star(place.mixer, length, pairs, place.width)
