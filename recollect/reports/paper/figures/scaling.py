"""Score against parameters (Fig. 4): for one and two layers, each model along its widths.

Colour and marker say which model; an open marker and a dashed line are one layer, a filled one and
a solid line are two.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recollect.analysis import Point, band, best_points
from recollect.reports.page.style import INK
from recollect.reports.paper.figures import sheet
from recollect.reports.paper.figures.looks import Look, looks
from recollect.reports.paper.figures.places import Curves, Place
from recollect.reports.paper.figures.question import Question, ask
from recollect.rows import RunRow

PANEL = (3.4, 2.5)
MOST_COLUMNS = 2
DASHED = (0, (3, 2))


def draw(question: Question, rows: Sequence[RunRow], curves: Curves, kind: str) -> Figure:
    """A panel per task."""
    places = ask(question, rows)
    tasks = {place.column: place.task for place in places}
    look = looks(places)
    columns = min(MOST_COLUMNS, len(tasks))
    lines = -(-len(tasks) // columns)
    with sheet.paper_style():
        figure, axes = sheet.panel_grid(lines, columns, PANEL)
        for ax, (column, title) in zip(axes.flat, tasks.items(), strict=False):
            here = [place for place in places if place.column == column]
            _draw_panel(ax, here, look, question.depths, kind)
            sheet.score_axis(ax, sheet.score_label(here))
            sheet.panel_title(ax, title, _absent(here, look, question.depths))
        for ax in list(axes.flat)[len(tasks) :]:
            ax.set_axis_off()
        entries: list[sheet.Entry] = [
            (Line2D([], [], color=style.colour, marker=style.marker, ls="", ms=4.5), model)
            for model, style in look.items()
        ]
        entries += [
            (
                Line2D([], [], color=INK, marker="o", ms=4.5, lw=1.1, **_layers(depth)),
                f"{depth} layer{'s' if depth > 1 else ''}",
            )
            for depth in sorted({place.depth for place in places})
        ]
        entries += sheet.marks(figure)
        how = (
            "Along a line the width grows: "
            f"{', '.join(str(width) for width in sorted({place.width for place in places}))}."
        )
        return sheet.finish(
            figure, question.title, entries, [how, *sheet.small_print(question, places, kind)]
        )


def _draw_panel(
    ax: Axes, places: list[Place], look: dict[str, Look], depths: tuple[int, int], kind: str
) -> None:
    sheet.draw_chance(ax, [place.cell for place in places])
    for model, style in look.items():
        for depth in range(depths[0], depths[1] + 1):
            cells = [place.cell for place in places if (place.model, place.depth) == (model, depth)]
            points = best_points(cells, "parameters")
            if points:
                _draw_line(ax, points, style, depth, kind)
    if not any(place.cell.best for place in places):
        sheet.mark_missing(ax, "no result")
    _parameter_axis(ax)


def _absent(places: Sequence[Place], look: dict[str, Look], depths: tuple[int, int]) -> str:
    """Which models have no result here, with the depths they lack."""
    scored = {(place.model, place.depth) for place in places if place.cell.best}
    lacking = {
        model: [depth for depth in range(depths[0], depths[1] + 1) if (model, depth) not in scored]
        for model in look
    }
    named = [
        f"{model} ({', '.join(map(str, missing))})" for model, missing in lacking.items() if missing
    ]
    return f"no result (layers): {', '.join(named)}" if named else ""


def _draw_line(ax: Axes, points: Sequence[Point], style: Look, depth: int, kind: str) -> None:
    x = [point.x for point in points]
    bands = [band(point.scores, kind) for point in points]
    ax.vlines(
        x,
        [low for low, _ in bands],
        [high for _, high in bands],
        color=style.colour,
        lw=0.9,
        alpha=0.6,
    )
    look = {**_layers(depth), "color": style.colour, "marker": style.marker, "ms": 4.5, "lw": 1.1}
    ax.plot(x, [point.mean for point in points], label=f"{depth}", **look)
    lost = [
        (point.x, row.chance)
        for point in points
        for row in point.cell.rows
        if row.status == "diverged" and row.spec["train"]["lr"] == point.lr
    ]
    ax.plot(
        [c for c, _ in lost],
        [y for _, y in lost],
        color=style.colour,
        label="diverged",
        **sheet.CROSS,
    )


def _layers(depth: int) -> dict[str, Any]:
    return {"ls": DASHED, "mfc": "white"} if depth == 1 else {"ls": "-"}


def _parameter_axis(ax: Axes) -> None:
    """A log axis with a number at every decade, and at 2 and 5 where it is short."""
    ax.set_xscale("log")
    ax.set_xlabel("parameters")
    low, high = ax.get_xlim()
    steps = (1, 2, 5) if high / low < 50 else (1,)
    ticks = [
        step * 10.0**power
        for power in range(13)
        for step in steps
        if low <= step * 10.0**power <= high
    ]
    ax.set_xticks(ticks, [_count_text(tick) for tick in ticks])
    ax.set_xticks([], minor=True)


def _count_text(count: float) -> str:
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= unit:
            return f"{count / unit:g}{letter}"
    return f"{count:g}"
