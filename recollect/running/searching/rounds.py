"""What all searches in rounds share: a step between rates, and questions about a rate."""

import math
from collections.abc import Sequence

from recollect.analysis import Rate
from recollect.rows import RunRow

# Decades, as between 1, 3, 10, 30, ...: the largest distance between tried rates at which what lies
# between them is trusted.
STEP = 0.55


def todo_rows(rate: Rate) -> list[RunRow]:
    return [row for row in rate.rows if row.status == "todo"]


def is_tried(rate: Rate) -> bool:
    """Whether a rate has a score, or will never get one because no run of it is todo."""
    return bool(rate.scores) or not todo_rows(rate)


def gaps(rates: Sequence[Rate]) -> list[int]:
    """The fewest untried rates that close all gaps above STEP decades between tried rates, and
    between these and the ends of the grid. Gaps of the grid itself remain.
    """
    places = [math.log10(rate.lr) for rate in rates]
    tried = [index for index, rate in enumerate(rates) if is_tried(rate)]
    untried: list[int] = []
    at, last = places[0], -1
    while places[-1] - at > STEP:
        near = [i for i in range(last + 1, len(places)) if places[i] - at <= STEP]
        known = [index for index in near if index in tried]
        last = (known or near or [last + 1])[-1]
        if last not in tried:
            untried.append(last)
        at = places[last]
    return untried
