"""The windows of all mixers: a bar per mixer over learning rates, the widest on top.

Shades are levels tau, from the palest for the requested level to darker ones for the usual levels
above it. A thin line at each edge shows where that edge would lie with other seeds. The white mark
is the best rate of the window: another rate may score a little more, as by luck. A mixer that
reaches no level has its best score instead of a bar.
"""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from recollect.analysis import Window, best_text, count_text, rate_text
from recollect.analysis.seeds import TAUS, seed_spread, windows_by_threshold
from recollect.plotting import sheet, small_print
from recollect.plotting.colours import FAINT, INK, LineStyle, shade
from recollect.plotting.settings import print_style
from recollect.plotting.text import NAME_LETTER, plain, write
from recollect.reports.paper.searched import is_searched
from recollect.reports.pictures.captions import caption
from recollect.reports.pictures.look import Look
from recollect.reports.pictures.shown import Panel, Shown, ShownCell

SHADES = (0.62, 0.35, 0.0)  # shares of white in a mixer's colour, by level
BAR, LINE_INCHES, LEAST_LINE = 0.62, 0.21, 0.13
MARGIN = 0.2  # margin above and below all lines together, in lines
PANEL_WIDTH, FRAME_INCHES = 3.6, 0.62
USUAL_NAME = 14  # characters that fit next to a panel of this width; longer names widen it
GAP = 0.03  # space between panels as a share of their width; there is text on both sides of it


def draw(shown: Shown, look: Look) -> Figure:
    """Draw one panel per task and size. All panels have the same rate axis."""
    panels = shown.panels(by_rows=look.by_rows)
    levels = (look.tau, *(tau for tau in TAUS if tau > look.tau))[: len(SHADES)]
    lrs = [rate.lr for cell in shown.runs for rate in cell.scored_rates]
    with print_style():
        longest = max(len(_name(cell, shown)) for cell in shown.cells)
        panel_width = PANEL_WIDTH + NAME_LETTER * max(0, longest - USUAL_NAME)
        columns = sheet.columns_for(len(panels), panel_width, most=2)
        rows = -(-len(panels) // columns)
        # The fullest panel sets the height of a row, so that all bars are equally thick.
        beside = [panels[first : first + columns] for first in range(0, len(panels), columns)]
        lines = [max(len(panel.cells) for panel in own) for own in beside]
        high = FRAME_INCHES + LINE_INCHES * sum(lines) / rows
        spans = [count + MARGIN for count in lines]
        figure, axes = sheet.panel_grid(rows, columns, (panel_width, high), height_ratios=spans)
        for number, ax in enumerate(axes.flat):
            if number >= len(panels):
                ax.remove()
                continue
            sheet.rate_axis(ax, min(lrs), max(lrs))
            _draw_panel(ax, panels[number], shown, levels, lines[number // columns])
        entries: list[sheet.LegendEntry] = [
            (Patch(fc=shade(INK, amount), ec="none"), f"τ = {level:g}")
            for level, amount in _shaded(levels)
        ]
        score = small_print.score_label(shown.runs)
        what = (
            f"W(τ): the decades of learning rate, contiguous around a best one (white), at which "
            f"the mean {score} over {small_print.seeds_text(shown.runs)} is at least τ. Right: "
            f"W({look.tau:g}) in decades; ≥ and an arrow: the grid ended first. In brackets, and "
            "as a thin line at each edge: where it would lie with other seeds (95 %)."
        )
        if not all(map(is_searched, shown.runs)):
            what += " Rates tried: too few to know a window by."
        title = f"Windows: {shown.shared()}".rstrip(": ")
        text = caption(shown, what, panels, shown.shared())
        least = FRAME_INCHES * rows + LEAST_LINE * sum(lines)
        return sheet.finish(figure, title, entries, text, gap=GAP, least=least)


def _shaded(levels: Sequence[float]) -> list[tuple[float, float]]:
    """Each level with its shade. The highest level always has the mixer's own colour."""
    return list(zip(levels, SHADES[-len(levels) :], strict=True))


def _draw_panel(ax: Axes, panel: Panel, shown: Shown, levels: Sequence[float], lines: int) -> None:
    """Draw one panel. `lines` is the number of lines in the fullest panel of its row, so that all
    bars are equally thick.
    """
    sheet.panel_title(ax, panel.title)
    cells = sorted(panel.cells, key=lambda cell: _width(cell, levels[0]), reverse=True)
    ax.set_ylim(lines - 0.5 + MARGIN / 2, -0.5 - MARGIN / 2)
    ax.set_yticks(range(len(cells)), [_name(cell, shown) for cell in cells])
    for text in ax.get_yticklabels():
        text.set_parse_math(False)
    ax.spines["left"].set_visible(False)
    # Leave space for a note that begins at the axis.
    ax.tick_params(axis="y", length=0, pad=9)
    beside = ax.get_yaxis_transform()
    for place, cell in enumerate(cells):
        _draw_cell(ax, cell, place, shown.styles[cell.label, cell.source], levels)
        note = ax.text(1.03, place, " ", transform=beside, va="center", size=6.5, color=INK)
        write(note, _width_text(cell, levels[0]))


def _draw_cell(
    ax: Axes, cell: ShownCell, place: int, style: LineStyle, levels: Sequence[float]
) -> None:
    best = cell.runs.best
    assert best is not None
    for level, amount in _shaded(levels):
        window = cell.runs.window(level)
        if window is not None:
            _draw_bar(ax, window, place, shade(style.colour, amount), level == levels[0])
    window = cell.runs.window(levels[0])
    if window is None:
        reached = best_text(cell.runs, levels[0])
        if not cell.runs.all_diverged:
            mark: dict[str, Any] = {"marker": "|", "ms": 7, "color": style.colour}
            ax.plot([best.lr], [place], ls="", label="best rate", **mark)
            reached += f" at {rate_text(best.lr)}"
        # Place the note on the side with more space.
        low, high = (math.log10(edge) for edge in ax.get_xlim())
        is_left = math.log10(best.lr) < (low + high) / 2
        note = ax.annotate(
            " ",
            (best.lr, place),
            xytext=(4 if is_left else -4, 0),
            textcoords="offset points",
            ha="left" if is_left else "right",
            va="center",
            size=6.5,
            color=FAINT,
        )
        write(note, reached)
        return
    spread = seed_spread(cell.runs, levels[0])
    for edge, is_open in (
        (spread and spread.low_edge, window.open_low),
        (spread and spread.high_edge, window.open_high),
    ):
        if edge and not is_open:
            ax.plot(edge, [place] * 2, color=INK, lw=0.8, zorder=4, label="edge over seeds")
    circle: dict[str, Any] = {
        "marker": "o",
        "ms": 3.4,
        "mfc": "white",
        "mec": INK,
        "mew": 0.7,
        "zorder": 5,
    }
    ax.plot([_best_inside(cell, window)], [place], ls="", label="best rate", **circle)


def _best_inside(cell: ShownCell, window: Window) -> float:
    """The best rate of a window: the best of all, unless a rate elsewhere scores a little more."""
    best = cell.runs.best
    inside = [rate for rate in cell.runs.scored_rates if window.low <= rate.lr <= window.high]
    found = best if best in inside else max(inside, key=lambda rate: rate.mean, default=best)
    assert found is not None
    return found.lr


def _draw_bar(ax: Axes, window: Window, place: int, colour: str, is_widest: bool) -> None:
    box = Rectangle((window.low, place - BAR / 2), window.high - window.low, BAR, fc=colour, lw=0)
    box.set_label(f"W({window.tau:g})")
    ax.add_patch(box)
    ends = ((window.low, window.open_low, "<"), (window.high, window.open_high, ">"))
    for rate, is_open, arrow in ends:
        if is_open and is_widest:
            ax.plot([rate], [place], marker=arrow, ms=5, color=colour, ls="", clip_on=False)


def _name(cell: ShownCell, shown: Shown) -> str:
    source = f" · {shown.source_name(cell.source, 18)}" if shown.is_comparison else ""
    return plain(cell.label) + source


def _width(cell: ShownCell, tau: float) -> tuple[float, float]:
    window, best = cell.runs.window(tau), cell.runs.best
    return window.decades if window else -1.0, best.mean if best else 0.0


def _width_text(cell: ShownCell, tau: float) -> str:
    """The width of a window in words: "2.6 [2.4, 2.8]", with ≥ if the grid ended inside the window.

    If the cell was not searched, it is the number of rates: a few rates show neither the width of
    a window nor its absence.
    """
    if not is_searched(cell.runs):
        return f"{count_text(len(cell.runs.scored_rates), 'rate')} tried"
    window = cell.runs.window(tau)
    if window is None:
        return "none"
    text = f"{'≥ ' if window.is_open else ''}{window.decades:.1f}"
    [found] = windows_by_threshold(cell.runs, (tau,))
    if found.interval:
        text += f" [{found.interval[0]:.1f}, {found.interval[1]:.1f}]"
    return text
