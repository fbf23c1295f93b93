"""The search for best scores (`--search best`): chooses the runs of the next round from the rows so
far. It depends on nothing but the rows, so a stopped search continues where it was.

A cell is searched in rounds, each large enough to be trained as one population:

  first   every seed of the rate in the middle: a cell that solves the task there needs no search
  grid    one seed each of rates that leave no gap above STEP decades: every wider window contains
          one of them
  top     the rates that may be the best, by the share of the draws in which they are: one seed of a
          rate without a score, every seed of the others

A cell is done when its best score is known to TOLERANCE, with the confidence stated in
analysis/seeds/prediction.py, and a rate that is as good has all its seeds. It is also done when no
run is left that could tell more. Runs that are not needed stay todo.
"""

import math
from collections.abc import Sequence

from recollect.analysis import Cell, Rate
from recollect.rows import RunRow
from recollect.running.searching.outlook import BestOutlook, best_outlook
from recollect.running.searching.rounds import gaps, todo_rows

TOLERANCE = 0.02  # of a score
WINNING = 0.05  # a rate is trained if it is the best in at least this share of the draws


def next_round(cell: Cell) -> list[RunRow]:
    """The runs of a cell to train next; empty when it is done."""
    chosen = _choose(cell)
    return [row for rate, count in chosen.items() for row in todo_rows(cell.rates[rate])[:count]]


def is_known(cell: Cell) -> bool:
    """Whether the best score of a cell is known. Requires a cell with at least one score."""
    outlook = best_outlook(cell)
    if outlook.best >= 1 - TOLERANCE:  # nothing can be better by more than that
        return True
    return is_covered(cell) and outlook.is_within(TOLERANCE)


def is_covered(cell: Cell) -> bool:
    """Whether the tried rates leave no gap that could hold a window of more than STEP decades.

    Without that, a prediction between them means nothing.
    """
    return not gaps(cell.rates)


def _choose(cell: Cell) -> dict[int, int]:
    """Return the number of further seeds to train, by index of the rate."""
    rates = cell.rates
    lacking = {index: len(left) for index, rate in enumerate(rates) if (left := todo_rows(rate))}
    if not lacking or any(row.status == "running" for row in cell.rows):
        return {}  # the scores of runs in another process may decide
    if not cell.scored_rates:
        middle = middle_place([rate.lr for rate in rates])
        start = min(lacking, key=lambda index: abs(index - middle))
        return {start: lacking[start]}
    outlook = best_outlook(cell)
    if is_known(cell):
        alike = [i for i, rate in enumerate(rates) if rate.scores and _is_alike(rate, outlook)]
        best = max(alike, key=lambda index: rates[index].mean)
        return {} if set(alike) - lacking.keys() else {best: lacking[best]}
    if untried := gaps(rates):
        return dict.fromkeys(untried, 1)
    winning = [index for index in lacking if outlook.wins[index] >= WINNING]
    chosen = winning or sorted(lacking, key=lambda index: -outlook.wins[index])[:1]
    return {index: lacking[index] if rates[index].scores else 1 for index in chosen}


def _is_alike(rate: Rate, outlook: BestOutlook) -> bool:
    return rate.mean >= outlook.best - TOLERANCE


def middle_place(rates: Sequence[float]) -> int:
    """Index of the rate nearest to the middle on a log scale; `rates` are ascending."""
    middle = math.log10(rates[0] * rates[-1]) / 2
    return min(range(len(rates)), key=lambda index: abs(math.log10(rates[index]) - middle))
