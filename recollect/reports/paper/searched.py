"""Whether a cell was searched: only then is anything known about its window. A few rates, tried to
see whether a model solves the task at all, are neither a narrow window nor none.
"""

import math
from itertools import pairwise

from recollect.analysis import Cell
from recollect.reports.paper.claims.thresholds import FINEST_STEP, LEAST_SPAN


def is_searched(cell: Cell) -> bool:
    """Whether its window is known, with rates at most FINEST_STEP apart around each end; or that
    it has no end or is none, after a search over LEAST_SPAN.
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
