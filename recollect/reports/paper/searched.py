"""Whether a cell was searched, so that its window is known: to show it, or to compare it.

A few rates that were tried only to see whether a model solves the task show neither that its window
is narrow nor that it has none.
"""

import math
from itertools import pairwise

from recollect.analysis import Cell, Window
from recollect.reports.paper.claims.thresholds import FINEST_STEP, LEAST_SPAN

# Decades between the rates around an end of a window: of one that is shown, and of one that is
# compared with another. The second is one step of Zoology's grid.
SHOWN_STEP = 2 * FINEST_STEP
COMPARED_STEP = 0.67
SAME_RATE = 1 + 1e-9  # an edge is computed, and may lie on a rate


def is_searched(cell: Cell) -> bool:
    """Whether the window of a cell is known well enough to be shown.

    Around each end of a window inside the grid, the rates must be at most SHOWN_STEP apart. If
    there is no window, or if it reaches the end of the grid, the search must have covered
    LEAST_SPAN without a gap above SHOWN_STEP.
    """
    return _is_known(cell, SHOWN_STEP)


def is_measured(cell: Cell) -> bool:
    """Whether it is known well enough to be compared: as above, but with rates at most
    COMPARED_STEP apart around its ends.
    """
    return _is_known(cell, COMPARED_STEP)


def _is_known(cell: Cell, step: float) -> bool:
    window = cell.window()
    if window and max(_end_gaps(cell, window), default=0.0) > step:
        return False
    return bool(window and not window.is_open) or _is_wide_search(cell)


def _end_gaps(cell: Cell, window: Window) -> list[float]:
    """The decades between the last rate inside and the first outside, for each end in the grid."""
    lrs = [rate.lr for rate in cell.scored_rates]
    inside = [
        place
        for place, rate in enumerate(cell.scored_rates)
        if rate.mean >= window.tau and window.low / SAME_RATE <= rate.lr <= window.high * SAME_RATE
    ]
    gaps = []
    if not window.open_low:
        gaps.append(math.log10(lrs[inside[0]] / lrs[inside[0] - 1]))
    if not window.open_high:
        gaps.append(math.log10(lrs[inside[-1] + 1] / lrs[inside[-1]]))
    return gaps


def _is_wide_search(cell: Cell) -> bool:
    lrs = [rate.lr for rate in cell.scored_rates]
    if not lrs or math.log10(lrs[-1] / lrs[0]) < LEAST_SPAN:
        return False
    return max(math.log10(b / a) for a, b in pairwise(lrs)) <= SHOWN_STEP
