"""Best score and window against a size: width, depth, length, parameters or state.

Every cell is shown at its best rate. The upper panel has the score, the lower one the width of the
window in decades. An arrow upwards means that the grid ended inside the window, so that the window
is at least as wide.
"""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from recollect.analysis import get_setting
from recollect.analysis.settings import DEPTH, WIDTH
from recollect.errors import SpecError
from recollect.plotting import sheet, small_print
from recollect.plotting.settings import print_style
from recollect.reports.pictures.captions import caption
from recollect.reports.pictures.lines import draw_means, legend, mean_line
from recollect.reports.pictures.look import Look
from recollect.reports.pictures.shown import Panel, Shown, ShownCell
from recollect.spec.base import suggest

PANEL = (2.5, 1.7)
# By name of an axis: its key, and the coordinate of a panel that it replaces.
AXES = {
    "width": (WIDTH, "width"),
    "depth": (DEPTH, "depth"),
    "length": ("task.length", "task"),
    "pairs": ("task.pairs", "task"),
    "parameters": ("parameters", "width"),
    "state": ("state_size", "width"),
}
COUNTED = ("parameters", "state_size")  # counted on the model, not part of its specification
AXIS_WORDS = {"depth": "layers", "state": "state (floats per layer and sequence)"}
ROOM = 0.06  # margin at both ends of the size axis, as a share of the span of its values
TICK_GAP = 0.13  # least gap between two ticks, as a share of the same span, so that labels fit
ARROW, LEAST_DECADES = 0.12, 1.0  # length of an arrow; least height of the window axis


def draw(shown: Shown, look: Look) -> Figure:
    """Draw two rows of panels: score above, window below."""
    against = look.against or _first_axis(shown)
    if against not in AXES:
        raise SpecError(f"--against {against}: {suggest(against, AXES)}")
    sides = [side for side in ("task", "width", "depth") if side != AXES[against][1]]
    every = shown.panels(sides)
    # A panel in which every model has a single size shows no scaling.
    panels = [panel for panel in every if _has_line(panel, against)] or every
    drawn = [cell for panel in panels for cell in panel.cells]
    values = sorted({x for cell in drawn if (x := _place(cell, against)) is not None})
    if len(values) < 2:
        raise SpecError(
            f"scaling: the runs have {len(values)} value of {against}, and a line needs two;\n"
            f"give another --against ({', '.join(AXES)}), or train more sizes"
        )
    with print_style():
        columns = len(panels)
        figure, axes = sheet.panel_grid(2, columns, PANEL, sharex="col", sharey="row")
        score = small_print.score_label(shown.runs)
        for number, panel in enumerate(panels):
            upper, lower = axes[0, number], axes[1, number]
            sheet.panel_title(upper, panel.title)
            sheet.score_axis(upper, f"best {score}" if number == 0 else "")
            lower.set_ylabel(f"W({look.tau:g}), decades" if number == 0 else "")
            lower.set_xlabel(AXIS_WORDS.get(against, against))
            _size_axis(lower, values, is_counted=AXES[against][0] in COUNTED)
            sheet.draw_floors(upper, [cell.runs for cell in panel.cells])
            _draw_panel(upper, lower, panel, shown, look, against)
        highest = max(axes[1, 0].get_ylim()[1], LEAST_DECADES)
        axes[1, 0].set_ylim(-0.05 * highest, highest)
        what = (
            f"Every mixer at its best rate against {AXIS_WORDS.get(against, against)}: {score} "
            f"above, window W({look.tau:g}) below (0: not solved; an arrow: at least so wide)."
        )
        if len(panels) < len(every):
            left = [panel.title for panel in every if panel not in panels]
            what += f" Not shown, of one {against} each: {'; '.join(left)}."
        title = f"Best {score} and window against {against}: {shown.shared(sides)}".rstrip(": ")
        entries = legend(shown, figure, labels={cell.label for cell in drawn})
        return sheet.finish(
            figure, title, entries, caption(shown, what, panels, shown.shared(sides), look.band)
        )


def _draw_panel(
    upper: Axes, lower: Axes, panel: Panel, shown: Shown, look: Look, against: str
) -> None:
    lines: dict[tuple[str, int], list[ShownCell]] = {}
    for cell in panel.cells:
        if _place(cell, against) is not None:
            lines.setdefault((cell.label, cell.source), []).append(cell)
    for (label, source), cells in lines.items():
        style = shown.styles[label, source]
        ordered = sorted(cells, key=lambda cell: _place(cell, against) or 0)
        x = [float(_place(cell, against) or 0) for cell in ordered]
        best = [cell.runs.best for cell in ordered if cell.runs.best]
        draw_means(upper, x, best, style, source, look.band, label)
        windows = [cell.runs.window(look.tau) for cell in ordered]
        decades = [window.decades if window else 0.0 for window in windows]
        lower.plot(x, decades, label=label, **mean_line(style, source))
        is_open = [window is not None and window.is_open for window in windows]
        ends = [(at, wide) for at, wide, more in zip(x, decades, is_open, strict=True) if more]
        if ends:
            places, heights = zip(*ends, strict=True)
            arrow: dict[str, Any] = {"yerr": ARROW, "lolims": True, "fmt": "none", "elinewidth": 1}
            lower.errorbar(places, heights, color=style.colour, label="at least", **arrow)


def _has_line(panel: Panel, against: str) -> bool:
    places: dict[tuple[str, int], set[float]] = {}
    for cell in panel.cells:
        if (place := _place(cell, against)) is not None:
            places.setdefault((cell.label, cell.source), set()).add(place)
    return any(len(own) > 1 for own in places.values())


def _place(cell: ShownCell, against: str) -> float | None:
    key = AXES[against][0]
    found = getattr(cell.runs, key) if key in COUNTED else get_setting(cell.runs.rows[0], key)
    return found if isinstance(found, int | float) else None


def _first_axis(shown: Shown) -> str:
    """The first size in which the runs differ."""
    for against in AXES:
        if len({_place(cell, against) for cell in shown.cells} - {None}) > 1:
            return against
    return next(iter(AXES))


def _size_axis(ax: Axes, values: Sequence[float], is_counted: bool) -> None:
    """Set up a log axis with ticks at the sizes themselves, as far as their labels fit. Counted
    sizes that span more than a decade have ticks at powers of ten.
    """
    ax.set_xscale("log")
    room = (values[-1] / values[0]) ** ROOM
    ax.set_xlim(values[0] / room, values[-1] * room)
    if is_counted and math.log10(values[-1] / values[0]) > 1:
        return
    gap = (values[-1] / values[0]) ** TICK_GAP
    shown = list(values[:1])
    for value in values:
        if value >= shown[-1] * gap:
            shown.append(value)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks(
        shown, [f"{value:g}" if value < 1e4 else f"{value / 1e3:.3g}k" for value in shown]
    )
