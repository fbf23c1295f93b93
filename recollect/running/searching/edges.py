"""The search for the edges of windows (`--search edges`): rows so far in, the runs of the next
round out. Looks at nothing but the rows, so a search goes on wherever it was stopped.

A cell is searched in rounds, each large enough to be trained as one population:

  first   rates about COARSE decades apart, from the middle to both ends, one seed each: a window
          wider than that holds one of them
  peak    where none of them solves the task: the untried neighbours of the best rate, and every
          seed of the rates whose score is less than NEAR below tau, until the best rate has both
          neighbours and none of these lacks a seed
  edges   at both edges at once: between the last rate that solves it and the next tried one the
          rate in the middle (beyond the last one tried, the next); where they are neighbours, one
          more seed at the rate outside, then the seeds that the rate inside lacks
  inside  the seeds that rates lack whose verdict is in doubt, that of an edge included; rates at
          most STEP decades apart, one seed each; and all seeds of a rate as good as the best, so
          that the best score is known too

A cell is done when its width W(tau) is known to TOLERANCE decades with the confidence that
searching/prediction.py states, or nothing that could tell more is left. What it does not need stays
todo.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from recollect.analysis import TAU, Cell, Rate
from recollect.rows import RunRow
from recollect.running.searching.outlook import WindowOutlook, window_outlook
from recollect.running.searching.rounds import is_tried, todo_rows

TOLERANCE = 0.1  # decades
COARSE = 1.0
STEP = 0.55  # a window is trusted on rates that are at most so far apart
NEAR = 0.15
DOUBT = 0.05  # share of the draws
ALIKE = 0.02  # scores


def next_round(cell: Cell, tau: float = TAU) -> list[RunRow]:
    """The runs of a cell to train next; none when it is done."""
    chosen = _choose(cell, tau)
    return [row for rate, count in chosen.items() for row in todo_rows(cell.rates[rate])[:count]]


def is_known(cell: Cell, tau: float = TAU) -> bool:
    """Whether the window of a cell with some scores is known."""
    return window_outlook(cell, tau).is_within(TOLERANCE)


def _choose(cell: Cell, tau: float) -> dict[int, int]:
    """How many more seeds at which rate."""
    if any(row.status == "running" for row in cell.rows):
        return {}  # another process trains it: what it finds may decide
    first = coarse_places([rate.lr for rate in cell.rates])
    untried = [index for index in first if not is_tried(cell.rates[index])]
    if untried:
        return dict.fromkeys(untried, 1)
    outlook = window_outlook(cell, tau)
    inside = _places_inside(cell, outlook)
    if not inside:
        return _look_at_peak(cell, tau)
    if outlook.is_within(TOLERANCE):
        chosen = _look_at_top(cell, inside)
    else:
        chosen = _look_at_edges(cell, inside, outlook)
    for a, b in pairwise(inside):
        between = [index for index in range(a + 1, b) if todo_rows(cell.rates[index])]
        if between and _decades(cell.rates[a], cell.rates[b]) > STEP:
            chosen.setdefault(between[len(between) // 2], 1)
    return chosen


def coarse_places(rates: Sequence[float]) -> list[int]:
    """Which of ascending rates to try first: as few as leave gaps, those to the ends included, of
    about COARSE decades.
    """
    low, high = math.log10(rates[0]), math.log10(rates[-1])
    count = max(1, math.ceil((high - low) / COARSE - 1e-9) - 1)
    wanted = [low + (place + 1) * (high - low) / (count + 1) for place in range(count)]
    return sorted(
        {min(range(len(rates)), key=lambda i: abs(math.log10(rates[i]) - at)) for at in wanted}
    )


def _look_at_peak(cell: Cell, tau: float) -> dict[int, int]:
    scored = [index for index, rate in enumerate(cell.rates) if rate.scores]
    if not scored:
        return {}
    best = max(scored, key=lambda index: cell.rates[index].mean)
    beside = [i for i in (best - 1, best + 1) if 0 <= i < len(cell.rates)]
    untried = dict.fromkeys([i for i in beside if not is_tried(cell.rates[i])], 1)
    near = [index for index in scored if cell.rates[index].mean >= tau - NEAR]
    return untried | {index: left for index in near if (left := len(todo_rows(cell.rates[index])))}


def _look_at_top(cell: Cell, inside: Sequence[int]) -> dict[int, int]:
    """The seeds of the best rate, unless one with all its seeds is as good."""
    best = max(inside, key=lambda index: cell.rates[index].mean)
    whole = [cell.rates[index].mean for index in inside if not todo_rows(cell.rates[index])]
    if whole and max(whole) >= cell.rates[best].mean - ALIKE:
        return {}
    return {best: len(todo_rows(cell.rates[best]))}


def _look_at_edges(cell: Cell, inside: Sequence[int], outlook: WindowOutlook) -> dict[int, int]:
    rates = cell.rates
    chosen = {
        index: len(todo_rows(rates[index])) if rates[index].scores else 1
        for index in range(inside[0], inside[-1] + 1)
        if outlook.doubt[index] >= DOUBT and todo_rows(rates[index])
    }
    sides = (
        (inside[0], range(inside[0] - 1, -1, -1), outlook.edge_spread[0]),
        (inside[-1], range(inside[-1] + 1, len(rates)), outlook.edge_spread[1]),
    )
    for edge, beyond, spread in sides:
        if spread < TOLERANCE <= max(outlook.edge_spread):
            continue  # the other edge is to blame
        outside = next((index for index in beyond if rates[index].scores), None)
        gap = [
            index
            for index in beyond
            if todo_rows(rates[index])
            and not rates[index].scores
            and _is_between(edge, index, outside)
        ]
        if gap:
            # The edge moves, so its seeds can wait.
            chosen.pop(edge, None)
            chosen[gap[0] if outside is None else gap[len(gap) // 2]] = 1
        elif edge not in chosen and outside is not None and todo_rows(rates[outside]):
            chosen[outside] = 1
        elif todo_rows(rates[edge]):
            chosen[edge] = len(todo_rows(rates[edge]))
    return chosen or _most_doubtful(cell, inside, outlook)


def _most_doubtful(cell: Cell, inside: Sequence[int], outlook: WindowOutlook) -> dict[int, int]:
    """One rate, where no edge is left to look at."""
    lacking = [i for i in range(inside[0], inside[-1] + 1) if todo_rows(cell.rates[i])]
    place = max(lacking, key=lambda index: outlook.doubt[index], default=None)
    return {} if place is None or not outlook.doubt[place] else {place: 1}


def _is_between(edge: int, index: int, outside: int | None) -> bool:
    return outside is None or abs(index - edge) < abs(outside - edge)


def _places_inside(cell: Cell, outlook: WindowOutlook) -> list[int]:
    """The tried rates inside the window."""
    window = outlook.window
    if window is None:
        return []
    # An open window ends at a rate that is inside.
    low, high = window.low * (1 - 1e-9), window.high * (1 + 1e-9)
    return [i for i, rate in enumerate(cell.rates) if rate.scores and low <= rate.lr <= high]


def _decades(one: Rate, two: Rate) -> float:
    return abs(math.log10(two.lr / one.lr))
