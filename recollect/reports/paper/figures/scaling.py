"""Score against parameters (Fig. 4): a line along the widths for each model, with one and two
layers.

Colour and marker identify the model. An open marker and a dashed line mean one layer, a filled
marker and a solid line two.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recollect.analysis import Cell, Curves, Rate, band
from recollect.plotting import sheet
from recollect.plotting.colours import INK, LineStyle, line_styles
from recollect.plotting.settings import print_style
from recollect.reports.paper.figures import captions
from recollect.reports.paper.figures.definition import FigureDefinition, select_cells
from recollect.reports.paper.figures.figure_cells import FigureCell
from recollect.rows import RunRow

PANEL = (3.4, 2.5)
MOST_COLUMNS = 2
DASHED = (0, (3, 2))


def draw(definition: FigureDefinition, rows: Sequence[RunRow], curves: Curves, kind: str) -> Figure:
    """Draw a panel per task."""
    cells, left_out = select_cells(definition, rows)
    tasks = {cell.column: cell.task for cell in cells}
    styles = line_styles((cell.model, cell.mixer) for cell in cells)
    columns = min(MOST_COLUMNS, len(tasks))
    lines = -(-len(tasks) // columns)
    with print_style():
        figure, axes = sheet.panel_grid(lines, columns, PANEL)
        for ax, (column, title) in zip(axes.flat, tasks.items(), strict=False):
            here = [cell for cell in cells if cell.column == column]
            _draw_panel(ax, here, styles, definition.depths, kind)
            sheet.score_axis(ax, captions.score_label(here))
            sheet.panel_title(ax, title, _absent(here, styles, definition.depths))
        for ax in list(axes.flat)[len(tasks) :]:
            ax.set_axis_off()
        entries: list[sheet.LegendEntry] = [
            (Line2D([], [], color=style.colour, marker=style.marker, ls="", ms=4.5), model)
            for model, style in styles.items()
        ]
        entries += [
            (
                Line2D([], [], color=INK, marker="o", ms=4.5, lw=1.1, **_layers(depth)),
                f"{depth} layer{'s' if depth > 1 else ''}",
            )
            for depth in sorted({cell.depth for cell in cells})
        ]
        entries += sheet.marks(figure)
        how = (
            "Along a line the width grows: "
            f"{', '.join(str(width) for width in sorted({cell.width for cell in cells}))}."
        )
        return sheet.finish(
            figure,
            definition.title,
            entries,
            [how, *captions.small_print(definition, cells, kind, left_out)],
        )


def _draw_panel(
    ax: Axes,
    cells: list[FigureCell],
    styles: dict[str, LineStyle],
    depths: tuple[int, int],
    kind: str,
) -> None:
    sheet.draw_floors(ax, [cell.runs for cell in cells])
    counts: list[float] = []
    for model, style in styles.items():
        for depth in range(depths[0], depths[1] + 1):
            own = [cell.runs for cell in cells if (cell.model, cell.depth) == (model, depth)]
            points = _best_rates(own)
            if points:
                counts += [count for count, _ in points]
                _draw_line(ax, points, style, depth, kind)
    if not any(cell.runs.best for cell in cells):
        sheet.mark_missing(ax, "no result")
    _parameter_axis(ax, counts)


def _absent(
    cells: Sequence[FigureCell], styles: dict[str, LineStyle], depths: tuple[int, int]
) -> str:
    """The models that lack a result in this panel, with the missing depths."""
    scored = {(cell.model, cell.depth) for cell in cells if cell.runs.best}
    lacking = {
        model: [depth for depth in range(depths[0], depths[1] + 1) if (model, depth) not in scored]
        for model in styles
    }
    named = [
        f"{model} ({', '.join(map(str, missing))})" for model, missing in lacking.items() if missing
    ]
    return f"no result (layers): {', '.join(named)}" if named else ""


def _best_rates(cells: Sequence[Cell]) -> list[tuple[int, Rate]]:
    """The parameters and the best rate of every cell that has both, by number of parameters."""
    found = ((cell.parameters, cell.best) for cell in cells)
    points = [(count, best) for count, best in found if count is not None and best is not None]
    return sorted(points, key=lambda point: point[0])


def _draw_line(
    ax: Axes, points: Sequence[tuple[int, Rate]], style: LineStyle, depth: int, kind: str
) -> None:
    x = [count for count, _ in points]
    bands = [band(best.scores, kind) for _, best in points]
    ax.vlines(
        x,
        [low for low, _ in bands],
        [high for _, high in bands],
        color=style.colour,
        lw=0.9,
        alpha=0.6,
    )
    line = {**_layers(depth), "color": style.colour, "marker": style.marker, "ms": 4.5, "lw": 1.1}
    ax.plot(x, [best.mean for _, best in points], label=f"{depth}", **line)
    lost = [(count, row.score or 0.0) for count, best in points for row in best.diverged]
    ax.plot(
        [c for c, _ in lost],
        [y for _, y in lost],
        color=style.colour,
        label="diverged",
        **sheet.CROSS,
    )


def _layers(depth: int) -> dict[str, Any]:
    return {"ls": DASHED, "mfc": "white"} if depth == 1 else {"ls": "-"}


def _parameter_axis(ax: Axes, counts: Sequence[float]) -> None:
    """Set up a log axis with a tick at every decade, and at 2 and 5 if the axis is short.

    If that gives fewer than two ticks, they are at the least and the greatest of `counts`, the
    numbers drawn.
    """
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
    if len(ticks) < 2 or not counts:
        ticks = sorted({min(counts), max(counts)}) if counts else []
    ax.set_xticks(ticks, [_count_text(tick) for tick in ticks])
    ax.set_xticks([], minor=True)


def _count_text(count: float) -> str:
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= unit:
            return f"{count / unit:.3g}{letter}"
    return f"{count:.3g}"
