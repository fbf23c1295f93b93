"""Score against learning rate (Figs 1, 5, 7, 13): a line per model, a panel per task and size, and
dashed lines at the rates of the sparse grid.

A cross is a run that diverged, drawn at 0, as which it counts. A ring at the bottom is a planned
rate without a result.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recollect.analysis import ZOOLOGY_RATES, Curves, band, count_text
from recollect.plotting import sheet
from recollect.plotting.colours import FAINT, LineStyle, line_styles
from recollect.plotting.settings import print_style
from recollect.reports.paper.figures import captions
from recollect.reports.paper.figures.definition import FigureDefinition, select_cells
from recollect.reports.paper.figures.figure_cells import FigureCell
from recollect.rows import RunRow

PANEL = (2.6, 1.9)
SPARSE_DASHES = (0, (4, 3))
WAITING: dict[str, Any] = {"ls": "", "marker": "o", "ms": 3, "mfc": "none", "mew": 0.8, "zorder": 6}
WAITING_HEIGHT = -0.025


def draw(
    definition: FigureDefinition, by_size: bool, rows: Sequence[RunRow], curves: Curves, kind: str
) -> Figure:
    """Draw the figure. With `by_size` each width and depth has its own panel; otherwise sizes are
    lines of one panel.
    """
    cells, unscored = select_cells(definition, rows)
    cells, left_out = _compared(cells) if by_size else (_sized(cells), [])
    columns = list(dict.fromkeys(cell.column for cell in cells))
    sizes = sorted({_size(cell) for cell in cells}) if by_size else [(0, 0)]
    styles = line_styles((cell.model, cell.mixer) for cell in cells)
    with print_style():
        figure, axes = sheet.panel_grid(len(sizes), len(columns), PANEL, sharex=True, sharey=True)
        for row, size in enumerate(sizes):
            for column, task in enumerate(columns):
                here = [
                    cell
                    for cell in cells
                    if cell.column == task and (not by_size or _size(cell) == size)
                ]
                _draw_panel(axes[row, column], here, styles, kind, _limits(cells))
                title = next(cell.task for cell in cells if cell.column == task) if row == 0 else ""
                sheet.panel_title(axes[row, column], title, _absent(here, styles))
                if row < len(sizes) - 1:
                    axes[row, column].set_xlabel("")
            label = captions.score_label(cells)
            axes[row, 0].set_ylabel(f"{_size_text(size, sizes)}\n{label}" if by_size else label)
        entries: list[sheet.LegendEntry] = [
            (sheet.line_handle(style), model) for model, style in styles.items()
        ]
        entries += [
            (Line2D([], [], color=FAINT, lw=0.8, ls=SPARSE_DASHES), "Zoology's four rates"),
            *sheet.marks(figure),
        ]
        if any(not rate.scores for cell in cells for rate in cell.runs.rates):
            entries.append((Line2D([], [], color=FAINT, **WAITING), "planned, no result"))
        return sheet.finish(
            figure,
            definition.title,
            entries,
            [*captions.small_print(definition, cells, kind, unscored), *left_out],
        )


def _compared(cells: list[FigureCell]) -> tuple[list[FigureCell], list[str]]:
    """Remove panels with fewer than two mixers, unless all panels have fewer; return the remaining
    cells and a note about the removed panels.

    A folder may hold other sweeps that share one model with this figure.
    """
    panels: dict[tuple[object, ...], list[FigureCell]] = {}
    for cell in cells:
        panels.setdefault((cell.column, _size(cell)), []).append(cell)
    alone = [
        own for own in panels.values() if len({cell.mixer for cell in own if cell.runs.best}) < 2
    ]
    if not alone or len(alone) == len(panels):
        return cells, []
    dropped = {id(cell) for own in alone for cell in own}
    note = (
        f"Left out: {count_text(len(alone), 'combination')} of task and size at which fewer than "
        "two models have a result."
    )
    return [cell for cell in cells if id(cell) not in dropped], [note]


def _draw_panel(
    ax: Axes,
    cells: list[FigureCell],
    styles: dict[str, LineStyle],
    kind: str,
    limits: tuple[float, float],
) -> None:
    sheet.rate_axis(ax, *limits)
    sheet.score_axis(ax, "")
    if not any(cell.runs.best for cell in cells):
        sheet.mark_missing(ax, captions.why_missing(cells[0].runs if cells else None))
    for rate in ZOOLOGY_RATES:
        if limits[0] / 1.25 < rate < limits[1] * 1.25:
            ax.axvline(rate, color=FAINT, lw=0.8, ls=SPARSE_DASHES, zorder=1, label="sparse rate")
    sheet.draw_floors(ax, [cell.runs for cell in cells])
    for cell in cells:
        _draw_line(ax, cell, styles[cell.model], kind)


def _absent(cells: Sequence[FigureCell], styles: dict[str, LineStyle]) -> str:
    """The models without a result in a panel in which other models have one."""
    absent = [
        model
        for model in styles
        if not any(cell.model == model and cell.runs.best for cell in cells)
    ]
    return f"no result: {', '.join(absent)}" if 0 < len(absent) < len(styles) else ""


def _draw_line(ax: Axes, cell: FigureCell, style: LineStyle, kind: str) -> None:
    rates = cell.runs.scored_rates
    x = [rate.lr for rate in rates]
    bands = [band(rate.scores, kind) for rate in rates]
    ax.fill_between(
        x,
        [low for low, _ in bands],
        [high for _, high in bands],
        color=style.colour,
        alpha=0.16,
        lw=0,
        label="band",
    )
    mean: dict[str, Any] = {
        "color": style.colour,
        "ls": style.stroke,
        "marker": style.marker,
        "ms": 3.4,
        "lw": 1.3,
        "mec": "white",
        "mew": 0.4,
    }
    ax.plot(x, [rate.mean for rate in rates], label=cell.model, zorder=3, **mean)
    crosses = [(rate.lr, row.score or 0.0) for rate in rates for row in rate.diverged]
    ax.plot(
        [lr for lr, _ in crosses],
        [score for _, score in crosses],
        color=style.colour,
        label="diverged",
        **sheet.CROSS,
    )
    waiting = [rate.lr for rate in cell.runs.rates if not rate.scores]
    ax.plot(
        waiting, [WAITING_HEIGHT] * len(waiting), color=style.colour, label="waiting", **WAITING
    )


def _limits(cells: Sequence[FigureCell]) -> tuple[float, float]:
    rates = [rate.lr for cell in cells for rate in cell.runs.rates]
    return min(rates), max(rates)


def _size(cell: FigureCell) -> tuple[int, int]:
    return cell.depth, cell.width


def _size_text(size: tuple[int, int], sizes: Sequence[tuple[int, int]]) -> str:
    depth, width = size
    return (
        f"width {width}"
        if len({depth for depth, _ in sizes}) == 1
        else f"{depth} layers, width {width}"
    )


def _sized(cells: Sequence[FigureCell]) -> list[FigureCell]:
    """The cells with their size as part of the model's name."""
    return [replace(cell, name=f"{cell.name}, {cell.depth} x {cell.width}") for cell in cells]
