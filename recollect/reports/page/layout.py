"""The space that plots will take. It is reserved before any script runs, so that the page does not
move while it is read.

Heights are those of the scripts' plots with their titles. Two plots are side by side on a wide
screen, one on a narrow screen. A section without plots is hidden.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from recollect.analysis import CellSummary, Curves
from recollect.plotting.coordinates import Coordinates

PLOT, WINDOW_BAR, TITLE = 330, 9, 24  # pixels, as in scripts/3_rates.js
TAUS, BEST, SINGLE = 300, 260, 560
GAP = 18
FIRST_VIEW, MOST_PANELS, MOST_BEST = 6, 24, 8


class Room(NamedTuple):
    """The initial number of plots of a section, and the height of one plot in pixels."""

    plots: int
    height: int
    beside: int = 2  # plots side by side on a wide screen


def rooms(
    summaries: Sequence[CellSummary], places: Sequence[Coordinates], curves: Curves
) -> dict[str, Room]:
    """The space by section. A section whose plots only the script knows is left out; it stays
    hidden until the script has run.
    """
    panels: dict[tuple[str, str, str], list[CellSummary]] = {}
    for summary, place in zip(summaries, places, strict=True):
        if summary.best:
            panels.setdefault((place.task, place.width, place.depth), []).append(summary)
    if not panels:
        return {}
    bars = max(sum(summary.window is not None for summary in own) for own in panels.values())
    solved = sum(any(summary.window for summary in own) for own in panels.values())
    learnt = sum(
        any(curves.get(row.run_id) for one in own if one.best for row in one.best.rows)
        for own in panels.values()
    )
    first = len(panels) if len(panels) <= FIRST_VIEW else 1
    found = {
        "rates": Room(first, PLOT + WINDOW_BAR * bars + TITLE),
        "taus": Room(min(solved, MOST_PANELS), TAUS + TITLE),
        "best": Room(3 * min(learnt, MOST_BEST), BEST + TITLE, 3),
        "curves": Room(1 if curves else 0, SINGLE + TITLE),
    }
    return {section: room for section, room in found.items() if room.plots}


def section_attributes(known: Mapping[str, Room], section: str) -> Markup:
    """The HTML attributes of a section: its space as a style, or hidden if it has no plots yet."""
    room = known.get(section)
    if room is None:
        return Markup(" hidden")
    wide, narrow = (
        rows * room.height + (rows - 1) * GAP
        for rows in (math.ceil(room.plots / min(room.beside, room.plots)), room.plots)
    )
    return Markup(f' style="--wide: {wide}px; --narrow: {narrow}px"')
