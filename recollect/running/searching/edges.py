"""The search for the edges of windows (`--search edges`): chooses the runs of the next round from
the rows so far. It depends on nothing but the rows, so a stopped search continues where it was.

A cell is searched in rounds, each large enough to be trained as one population:

  first   rates about COARSE decades apart, from the middle to both ends, one seed each: every wider
          window contains one of them
  peak    if none of them solves the task: the untried neighbours of the best rate, every seed of
          the rates whose score is less than NEAR below tau, and the rates that close the gaps above
          STEP decades around a run that solves the task: where one seed is lost, another may have
          been lost beside it. Ends when no such run is left
  edges   at both edges at once: the rate in the middle between the last rate that solves the task
          and the next tried one. If no rate beyond is tried, the next rate. If the two are
          neighbours, one more seed of the rate outside, then the missing seeds of the rate inside
  inside  the missing seeds of rates whose verdict is in doubt, edges included; rates at most STEP
          decades apart, one seed each; and all seeds of a rate as good as the best, so that the
          best score is known too
  last    every other rate inside, one seed each: an untried rate may be a hole in the window, so
          that the width would be uncertain with other seeds (analysis/seeds/other_seeds.py)

A cell is done when its width W(tau) is known to TOLERANCE decades, with the confidence stated in
analysis/seeds/prediction.py, or when no run is left that could tell more. Runs that are not needed
stay todo.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from recollect.analysis import TAU, Cell, Rate
from recollect.rows import RunRow
from recollect.running.searching.outlook import WindowOutlook, window_outlook
from recollect.running.searching.rounds import STEP, gaps, is_tried, todo_rows

TOLERANCE = 0.1  # decades
COARSE = 1.0  # decades
NEAR = 0.15  # of a score
DOUBT = 0.05  # the smallest share of draws with the rarer verdict that puts a verdict in doubt
ALIKE = 0.02  # scores that differ by at most this count as equally good


def next_round(cell: Cell, tau: float = TAU) -> list[RunRow]:
    """The runs of a cell to train next; empty when it is done."""
    chosen = _choose(cell, tau)
    return [row for rate, count in chosen.items() for row in todo_rows(cell.rates[rate])[:count]]


def is_known(cell: Cell, tau: float = TAU) -> bool:
    """Whether the window of a cell is known. Requires a cell with at least one score."""
    return window_outlook(cell, tau).is_within(TOLERANCE) and not _gaps_around(cell, tau)


def bounds(cell: Cell, tau: float = TAU) -> tuple[float, float] | None:
    """The widths between which the window of the whole grid lies, in decades, before it is known.

    None if too little is tried to say: one of the first rates is untried, or no rate has all its
    seeds. The prediction alone is too sure of itself in the middle of a search, hence TOLERANCE on
    both sides: docs/decisions/search-edges.md.
    """
    first = coarse_places([rate.lr for rate in cell.rates])
    whole = [rate for rate in cell.scored_rates if not todo_rows(rate)]
    if not whole or not all(is_tried(cell.rates[index]) for index in first):
        return None
    if _gaps_around(cell, tau):
        return None
    outlook = window_outlook(cell, tau)
    return max(0.0, outlook.low - TOLERANCE), outlook.high + TOLERANCE


def _choose(cell: Cell, tau: float) -> dict[int, int]:
    """Return the number of further seeds to train, by index of the rate."""
    if any(row.status == "running" for row in cell.rows):
        return {}  # the scores of runs in another process may decide
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
    return chosen or {i: 1 for i in range(inside[0], inside[-1]) if not is_tried(cell.rates[i])}


def coarse_places(rates: Sequence[float]) -> list[int]:
    """Indices of the rates to try first; `rates` are ascending.

    They are the fewest that leave gaps of about COARSE decades, also to both ends.
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
    untried |= dict.fromkeys(_gaps_around(cell, tau), 1)
    near = [index for index in scored if cell.rates[index].mean >= tau - NEAR]
    return untried | {index: left for index in near if (left := len(todo_rows(cell.rates[index])))}


def _gaps_around(cell: Cell, tau: float) -> list[int]:
    """The untried rates that close the gaps around runs that solve the task, at most COARSE decades
    away from them, in a cell without a window.
    """
    if cell.window(tau) is not None:
        return []
    solving = [rate for rate in cell.scored_rates if max(rate.scores.values()) >= tau]
    return [
        index
        for index in gaps(cell.rates)
        if any(_decades(cell.rates[index], rate) <= COARSE for rate in solving)
    ]


def _look_at_top(cell: Cell, inside: Sequence[int]) -> dict[int, int]:
    """The missing seeds of the best rate, unless a rate with all its seeds is as good."""
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
            continue  # only the other edge is uncertain
        outside = next((index for index in beyond if rates[index].scores), None)
        gap = [
            index
            for index in beyond
            if todo_rows(rates[index])
            and not rates[index].scores
            and _is_between(edge, index, outside)
        ]
        if gap:
            # The edge may still move, so its seeds can wait.
            chosen.pop(edge, None)
            chosen[gap[0] if outside is None else gap[len(gap) // 2]] = 1
        elif edge not in chosen and outside is not None and todo_rows(rates[outside]):
            chosen[outside] = 1
        elif todo_rows(rates[edge]):
            chosen[edge] = len(todo_rows(rates[edge]))
    return chosen or _most_doubtful(cell, inside, outlook)


def _most_doubtful(cell: Cell, inside: Sequence[int], outlook: WindowOutlook) -> dict[int, int]:
    """One seed of the rate most in doubt, when no edge is left to look at."""
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
    # An open window ends exactly at a rate, which counts as inside.
    low, high = window.low * (1 - 1e-9), window.high * (1 + 1e-9)
    return [i for i, rate in enumerate(cell.rates) if rate.scores and low <= rate.lr <= high]


def _decades(one: Rate, two: Rate) -> float:
    return abs(math.log10(two.lr / one.lr))
