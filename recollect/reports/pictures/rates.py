"""Score against learning rate: a panel per task and size, a line per mixer, and the mixer's window
as a bar above.
"""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recollect.analysis import ZOOLOGY_RATES, Window
from recollect.plotting import sheet, small_print
from recollect.plotting.colours import FAINT, LineStyle
from recollect.plotting.settings import print_style
from recollect.reports.pictures.captions import caption
from recollect.reports.pictures.lines import draw_means, legend
from recollect.reports.pictures.look import Look
from recollect.reports.pictures.shown import Panel, Shown

PANEL = (2.75, 2.25)
SPARSE_DASHES = (0, (4, 3))
LOWEST_BAR, BAR_STEP = 1.06, 0.045  # heights of the window bars, in units of the score
BAR_INCHES = 0.07
LOWEST = -0.03  # lower end of the score axis


def draw(shown: Shown, look: Look) -> Figure:
    """Draw every rate with a result, for every cell."""
    panels = shown.panels()
    bars = [sum(cell.runs.window(look.tau) is not None for cell in panel.cells) for panel in panels]
    lrs = [rate.lr for cell in shown.runs for rate in cell.scored_rates]
    with print_style():
        columns = sheet.columns_for(len(panels), PANEL[0])
        rows = -(-len(panels) // columns)
        # The panel with the most windows sets the height of a row; the score scale is the same in
        # all rows.
        most = [max(bars[row * columns : (row + 1) * columns]) for row in range(rows)]
        tops = [1.04 + BAR_STEP * own for own in most]
        size = PANEL[0], PANEL[1] + BAR_INCHES * sum(most) / rows
        ratios = [top - LOWEST for top in tops]
        figure, axes = sheet.panel_grid(
            rows, columns, size, sharex=True, sharey="row", height_ratios=ratios
        )
        label = small_print.score_label(shown.runs)
        for number, ax in enumerate(axes.flat):
            if number >= len(panels):
                ax.remove()
                continue
            sheet.rate_axis(ax, min(lrs), max(lrs))
            sheet.score_axis(ax, label if number % columns == 0 else "")
            ax.set_ylim(LOWEST, tops[number // columns])
            ax.tick_params(labelbottom=number + columns >= len(panels))
            if number + columns < len(panels):
                ax.set_xlabel("")
            _draw_panel(ax, panels[number], shown, look)
        level = Line2D([], [], color=FAINT, lw=0.6)
        sparse = Line2D([], [], color=FAINT, lw=0.8, ls=SPARSE_DASHES)
        entries = legend(
            shown,
            figure,
            (level, f"{look.tau:g}, the windows' level"),
            (sparse, "Zoology's four rates"),
        )
        what = (
            f"{label.capitalize()} against learning rate; bars: the windows W({look.tau:g}), an "
            "arrow where the grid ended first."
        )
        title = f"{label.capitalize()} against learning rate: {shown.shared()}".rstrip(": ")
        return sheet.finish(
            figure, title, entries, caption(shown, what, panels, shown.shared(), look.band)
        )


def _draw_panel(ax: Axes, panel: Panel, shown: Shown, look: Look) -> None:
    sheet.panel_title(ax, panel.title)
    low, high = ax.get_xlim()
    ax.axhline(look.tau, color=FAINT, lw=0.6, zorder=1, label="level")
    for rate in ZOOLOGY_RATES:
        if low < rate < high:
            line: dict[str, Any] = {"color": FAINT, "lw": 0.8, "ls": SPARSE_DASHES, "zorder": 1}
            ax.plot([rate, rate], [0, 1], label="sparse rate", **line)
    sheet.draw_floors(ax, [cell.runs for cell in panel.cells])
    height = LOWEST_BAR
    for cell in panel.cells:
        style, rates = shown.styles[cell.label, cell.source], cell.runs.scored_rates
        draw_means(
            ax, [rate.lr for rate in rates], rates, style, cell.source, look.band, cell.label
        )
        window = cell.runs.window(look.tau)
        if window is not None:
            draw_bar(ax, window, style, height, is_hollow=cell.source > 0)
            height += BAR_STEP


def draw_bar(
    ax: Axes, window: Window, style: LineStyle, height: float, is_hollow: bool = False
) -> None:
    """Draw a window from edge to edge. An arrow at an end means that the grid ended there."""
    bar: dict[str, Any] = {"color": style.colour, "solid_capstyle": "butt", "label": "window"}
    ax.plot([window.low, window.high], [height] * 2, lw=2.2, zorder=3, **bar)
    if is_hollow:
        ax.plot([window.low, window.high], [height] * 2, lw=0.9, color="white", zorder=4)
    ends = ((window.low, window.open_low, "<"), (window.high, window.open_high, ">"))
    for rate, is_open, arrow in ends:
        mark: dict[str, Any] = {"marker": arrow, "mew": 0} if is_open else {"marker": "|"}
        ax.plot([rate], [height], color=style.colour, ls="", ms=4.5, label="window's end", **mark)
