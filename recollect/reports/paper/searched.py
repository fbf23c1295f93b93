"""Whether a cell was searched, so that its window is known.

A few rates that were tried only to see whether a model solves the task show neither that its window
is narrow nor that it has none.
"""

import math
from itertools import pairwise

from recollect.analysis import Cell
from recollect.reports.paper.claims.thresholds import FINEST_STEP, LEAST_SPAN


def is_searched(cell: Cell) -> bool:
    """Whether the window of a cell is known.

    It is known if the rates around each of its ends are at most FINEST_STEP apart. It is also known
    after a search over LEAST_SPAN that found no window, or one that reaches the end of the grid.
    """
    lrs = [rate.lr for rate in cell.scored_rates]
    if not lrs:
        return False
    window = cell.window()
    ends = [window.low, window.high] if window and not window.is_open else []
    around = [math.log10(b / a) for a, b in pairwise(lrs) for end in ends if a <= end <= b]
    if ends and max(around, default=math.inf) <= FINEST_STEP:
        return True
    gaps = [math.log10(b / a) for a, b in pairwise(lrs)]
    return math.log10(lrs[-1] / lrs[0]) >= LEAST_SPAN and max(gaps) <= 2 * FINEST_STEP
