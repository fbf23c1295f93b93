"""Chooses what to train first when time is short: the next runs, given the rows so far. It depends
on nothing but the rows.

A sweep is planned as a whole, so that a report can say what is missing. With a budget it is trained
in stages, and the rows are read again after each. The first of these stages that has runs to train
is next:

  begun    runs that an earlier call left unfinished
  coarse   in every cell (all settings but rate and seed) a coarse grid of rates, one seed:
           Zoology's four if they are planned, and others at least COARSE decades from those chosen
  edges    the rate in the middle between a rate that solves the task and its neighbour that does
           not, until none is left between; if the last rate tried solves the task, the next rate
           beyond it
  search   the other rates of cells that no rate has solved yet, from the best outwards: a coarse
           grid misses a narrow window
  seeds    one more seed at the telling rates: those between chance and solved, and those whose
           verdict (solved, between, chance) differs from a neighbour's
  rest     everything else, rates before seeds

So a cell that is solved at every rate, or at chance at every rate, gets nothing more before `rest`.

A GPU trains several runs in hardly more time than one. There, runs of the following stages are
added to a stage until it has enough, as if the runs before them were in training.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from recollect.analysis import (
    TAU,
    Cell,
    Rate,
    count_statuses,
    count_text,
    group_cells,
    is_sparse_rate,
)
from recollect.rows import RunRow, as_running
from recollect.running.searching.rounds import todo_rows

COARSE = 0.6  # decades
NEAR_CHANCE = 0.1  # scores up to this far above chance show no recall: positions give a little
Name = Literal["begun", "coarse", "edges", "search", "seeds", "rest", "round"]
ABOUT: dict[Name, str] = {
    "begun": "what was begun",
    "coarse": "a coarse grid of rates with one seed",
    "edges": "the edges of the windows",
    "search": "more rates where nothing has solved it",
    "seeds": "more seeds at the edges of the windows",
    "rest": "the other rates and seeds",
    "round": "the next round of a search",  # searching/searches.py
}


@dataclass(frozen=True)
class Stage:
    """The runs to train next, the most telling of each cell first."""

    name: Name
    run_ids: tuple[str, ...]
    # By run id: its place in the order of training; runs of several places train side by side.
    ranks: Mapping[str, int] = field(default_factory=dict)


def next_stage(rows: Sequence[RunRow], wanted: int = 1) -> Stage | None:
    """The next stage, with at least `wanted` runs if so many are todo; None when nothing is.

    Runs that were begun are always a stage of their own.
    """
    begun = tuple(row.run_id for row in rows if row.status == "todo" and row.attempt > 0)
    if begun:
        return Stage("begun", begun)
    stage = _first_stage(rows)
    while stage is not None and len(stage.run_ids) < wanted:
        rows = as_running(rows, stage.run_ids)
        following = _first_stage(rows)
        if following is None:
            break
        stage = replace(stage, run_ids=stage.run_ids + following.run_ids)
    return stage


def _first_stage(rows: Sequence[RunRow]) -> Stage | None:
    cells = [cell for cell in group_cells(rows) if any(row.status == "todo" for row in cell.rows)]
    for name, choose in _STAGES.items():
        chosen = tuple(row.run_id for cell in cells for row in choose(cell))
        if chosen:
            return Stage(name, chosen)
    return None


def budget_text(rows: Sequence[RunRow], stage: Stage | None, minutes: float, resume: str) -> str:
    """The text after a call with a budget: what is trained and what is left, the next `stage`, and
    the command `resume` to continue with.
    """
    counts = count_statuses(rows)
    begun = sum(row.status == "todo" and row.attempt > 0 for row in rows)
    ended = counts["done"] + counts["diverged"]
    left = f"{begun} begun and kept, {counts['todo'] - begun} not begun"
    if stage is None:
        what = "all that was asked for" if counts["todo"] else "all"
        if counts["running"]:
            what = "all that no other process trains"
        return f"{what} is trained within the budget of {minutes:g} min"
    return (
        f"the budget of {minutes:g} min is spent: {ended} of {count_text(len(rows), 'run')} "
        f"have a result, {left}; next: {ABOUT[stage.name]}\n"
        f"continue with `{resume} --budget {minutes:g}`, or without a limit with `{resume}`"
    )


def _coarse(cell: Cell) -> list[RunRow]:
    rates = coarse_rates([rate.lr for rate in cell.rates])
    return _first([rate for rate in _untried(cell) if rate.lr in rates], centre=None)


def coarse_rates(rates: Sequence[float]) -> list[float]:
    """The first rates to try; `rates` are ascending."""
    chosen = [rate for rate in rates if is_sparse_rate(rate)]
    for rate in rates:
        if all(abs(math.log10(rate / other)) >= COARSE for other in chosen):
            chosen.append(rate)
    return sorted(chosen)


def _edges(cell: Cell) -> list[RunRow]:
    chosen: list[Rate] = []
    gap: list[Rate] = []  # untried rates since the last one with a score
    untried = _untried(cell)
    # Whether the last rate with a score solved the task; None before the first and after the last.
    before: bool | None = None
    for rate in (*cell.rates, None):
        if rate is not None and not rate.scores:
            if rate in untried and todo_rows(rate):
                gap.append(rate)
            continue
        solved = None if rate is None else rate.mean >= TAU
        if gap and {before, solved} == {True, False}:
            chosen.append(gap[len(gap) // 2])
        elif gap and {before, solved} == {True, None}:
            chosen.append(gap[0] if before else gap[-1])
        gap, before = [], solved
    return _first(chosen, centre=cell.best)


def _search(cell: Cell) -> list[RunRow]:
    if any(rate.mean >= TAU for rate in cell.scored_rates):
        return []
    return _first(_untried(cell), centre=cell.best)


def _seeds(cell: Cell) -> list[RunRow]:
    rates = cell.scored_rates
    kinds = [_kind(rate, cell.chance) for rate in rates]
    telling = [
        rate
        for index, rate in enumerate(rates)
        if kinds[index] == "between" or len(set(kinds[max(0, index - 1) : index + 2])) > 1
    ]
    return _fewest([rate for rate in telling if todo_rows(rate)], cell)


def _rest(cell: Cell) -> list[RunRow]:
    return _fewest([rate for rate in cell.rates if todo_rows(rate)], cell)


_STAGES: dict[Name, Callable[[Cell], list[RunRow]]] = {
    "coarse": _coarse,
    "edges": _edges,
    "search": _search,
    "seeds": _seeds,
    "rest": _rest,
}


def _kind(rate: Rate, chance: float) -> str:
    if rate.mean >= TAU:
        return "solved"
    return "chance" if rate.mean <= chance + NEAR_CHANCE else "between"


def _untried(cell: Cell) -> list[Rate]:
    """Rates without a score and without a run in training."""
    return [
        rate
        for rate in cell.rates
        if not rate.scores and not any(row.status == "running" for row in rate.rows)
    ]


def _fewest(rates: Sequence[Rate], cell: Cell) -> list[RunRow]:
    """One more run at each of the rates with the fewest scores."""
    least = min((len(rate.scores) for rate in rates), default=0)
    return _first([rate for rate in rates if len(rate.scores) == least], centre=cell.best)


def _first(rates: Sequence[Rate], centre: Rate | None) -> list[RunRow]:
    """The first todo run of each rate, ordered outwards from `centre`; without one, from the middle
    of the rates.
    """
    if not rates:
        return []
    middle = (
        math.log10(centre.lr)
        if centre
        else (math.log10(rates[0].lr) + math.log10(rates[-1].lr)) / 2
    )
    ordered = sorted(rates, key=lambda rate: abs(math.log10(rate.lr) - middle))
    return [todo[0] for rate in ordered if (todo := todo_rows(rate))]
