"""The search for best scores (`--search best`): rows so far in, the runs of the next round out.
Looks at nothing but the rows, so a search goes on wherever it was stopped.

A cell is searched in rounds, each large enough to be trained as one population:

  first   every seed of the rate in the middle: what solves the task there needs no search
  grid    one seed each of rates that leave no gap above STEP decades: a wider window holds one
  top     the rates that may be the best, by the share of the draws in which they are: of one
          without a score one seed, of the others every seed

A cell is done when its best score is known to TOLERANCE with the confidence that
searching/prediction.py states and a rate as good has all its seeds, or nothing that could tell more
is left. What it does not need stays todo.
"""

import math
from collections.abc import Sequence

from recollect.analysis import Cell, Rate
from recollect.rows import RunRow
from recollect.running.searching.outlook import BestOutlook, best_outlook
from recollect.running.searching.rounds import is_tried, todo_rows

TOLERANCE = 0.02  # of a score
STEP = 0.55  # decades, as between 1, 3, 10, 30, ...
WINNING = 0.05  # share of the draws in which a rate must be the best to be looked at


def next_round(cell: Cell) -> list[RunRow]:
    """The runs of a cell to train next; none when it is done."""
    chosen = _choose(cell)
    return [row for rate, count in chosen.items() for row in todo_rows(cell.rates[rate])[:count]]


def is_known(cell: Cell) -> bool:
    """Whether the best score of a cell with some is known."""
    outlook = best_outlook(cell)
    if outlook.best >= 1 - TOLERANCE:  # nothing can be better by more than that
        return True
    return is_covered(cell) and outlook.is_within(TOLERANCE)


def is_covered(cell: Cell) -> bool:
    """Whether the tried rates leave no gap in which a window of more than STEP decades could lie;
    without that a prediction between them is none.
    """
    return not _gaps(cell)


def _choose(cell: Cell) -> dict[int, int]:
    """How many more seeds at which rate."""
    rates = cell.rates
    lacking = {index: len(left) for index, rate in enumerate(rates) if (left := todo_rows(rate))}
    if not lacking or any(row.status == "running" for row in cell.rows):
        return {}  # what another process trains may decide
    if not cell.scored_rates:
        middle = middle_place([rate.lr for rate in rates])
        start = min(lacking, key=lambda index: abs(index - middle))
        return {start: lacking[start]}
    outlook = best_outlook(cell)
    if is_known(cell):
        alike = [i for i, rate in enumerate(rates) if rate.scores and _is_alike(rate, outlook)]
        best = max(alike, key=lambda index: rates[index].mean)
        return {} if set(alike) - lacking.keys() else {best: lacking[best]}
    gaps = _gaps(cell)
    if gaps:
        return dict.fromkeys(gaps, 1)
    winning = [index for index in lacking if outlook.wins[index] >= WINNING]
    chosen = winning or sorted(lacking, key=lambda index: -outlook.wins[index])[:1]
    return {index: lacking[index] if rates[index].scores else 1 for index in chosen}


def _is_alike(rate: Rate, outlook: BestOutlook) -> bool:
    return rate.mean >= outlook.best - TOLERANCE


def middle_place(rates: Sequence[float]) -> int:
    """Which of ascending rates is nearest to the middle of their decades."""
    middle = math.log10(rates[0] * rates[-1]) / 2
    return min(range(len(rates)), key=lambda index: abs(math.log10(rates[index]) - middle))


def _gaps(cell: Cell) -> list[int]:
    """The untried rates, as few as will do, that leave no gap above STEP decades between the tried
    ones, nor from the ends of the grid to them, unless the grid has that gap itself.
    """
    places = [math.log10(rate.lr) for rate in cell.rates]
    tried = [index for index, rate in enumerate(cell.rates) if is_tried(rate)]
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
