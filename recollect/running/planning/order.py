"""What of a folder is trained next: its sweeps in the order of planning, each as it was asked for.

A sweep is trained in full, or with `--search edges` only as far as the search for its windows
needs (planning/edges.py); the folder remembers which. What is begun comes before all of them. On a
GPU, which a round of one sweep may not fill, rounds of several are one stage.
Within a budget the most telling runs of a sweep come first (planning/priority.py), unless
`--search all` was asked for: then one cell is completed after another, the cheapest first. All of
it is read from the store, so a folder goes on wherever it was stopped.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from recollect.analysis import Cell, count_text, group_cells
from recollect.rows import RunRow
from recollect.running.events import Event, SearchRound, ignore
from recollect.running.planning.edges import TOLERANCE, next_round
from recollect.running.planning.outlook import CONFIDENCE, window_outlook
from recollect.running.planning.priority import Stage, next_stage
from recollect.store import Store

MOST_NAMES = 6  # of cells in a line
# Of the store's own notes on itself: names of sweeps.
_SEARCHED, _IN_FULL = "search", "search in full"

NextStage = Callable[[Sequence[RunRow]], Stage | None]


@dataclass(frozen=True)
class SearchState:
    """How far the search of a folder has come."""

    cells: int
    known: int  # windows known to TOLERANCE decades
    unsolved: int  # of these, those of cells that are known to have none
    uncertain: tuple[str, ...]  # the other cells, each with what is not known of it
    runs: int  # of the next round

    def text(self) -> str:
        none = f", {self.unsolved} of them none: not solved" if self.unsolved else ""
        found = (
            f"{self.known} of {count_text(self.cells, 'window')} known to "
            f"+-{TOLERANCE:g} decades ({CONFIDENCE:.0%} sure){none}"
        )
        if not self.uncertain:
            return found
        more = len(self.uncertain) - MOST_NAMES
        names = ", ".join(self.uncertain[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        return f"{found}; next {count_text(self.runs, 'run')} of {names}"


def remember_search(store: Store, names: Iterable[str], search: str | None) -> None:
    """How these sweeps are trained from now on; None: in full, and in any order."""
    for key, kind in ((_SEARCHED, "edges"), (_IN_FULL, "all")):
        before = set(_names(store, key))
        after = before | set(names) if search == kind else before - set(names)
        if after != before:
            store.set_meta(key, json.dumps(sorted(after)))


def searched_sweeps(store: Store) -> list[str]:
    """The names of the sweeps whose search is not over."""
    return _names(store, _SEARCHED)


def _names(store: Store, key: str) -> list[str]:
    return json.loads(store.meta(key) or "[]")


def order_of(
    store: Store, within_budget: bool, listen: Callable[[Event], None] = ignore, wanted: int = 1
) -> NextStage:
    """Chooses the next stage of the folder, or None when nothing is left that was asked for.
    `wanted`: rounds of the sweeps that follow are added until there are so many runs.
    """
    searched, in_full = set(searched_sweeps(store)), set(_names(store, _IN_FULL))
    sweeps = [(sweep.name, frozenset(sweep.run_ids)) for sweep in store.sweeps()]

    def choose(rows: Sequence[RunRow]) -> Stage | None:
        begun = tuple(row.run_id for row in rows if row.status == "todo" and row.attempt > 0)
        if begun:
            return Stage("begun", begun)
        rounds: dict[str, None] = {}  # runs, in order
        for name, run_ids in sweeps:
            own = [row for row in rows if row.run_id in run_ids]
            if name in searched:
                stage = next_search_stage(own)
                if stage is not None:
                    listen(SearchRound(name, search_state(own).text()))
            elif within_budget and name not in in_full:
                stage = next_stage(own)
            else:
                todo = tuple(row.run_id for row in own if row.status == "todo")
                stage = Stage("rest", todo) if todo else None
            if stage is not None and stage.name != "round":
                return Stage("round", tuple(rounds)) if rounds else stage
            if stage is not None:
                rounds |= dict.fromkeys(stage.run_ids)
            if len(rounds) >= wanted:
                break
        return Stage("round", tuple(rounds)) if rounds else None

    return choose


def next_search_stage(rows: Sequence[RunRow]) -> Stage | None:
    """The next rounds of all cells of a sweep, or None when all are done."""
    chosen = tuple(row.run_id for cell in _cells(rows) for row in next_round(cell))
    return Stage("round", chosen) if chosen else None


def search_texts(store: Store, rows: Sequence[RunRow]) -> tuple[str, ...]:
    """How far the search of each sweep has come, in words."""
    searched, texts = set(searched_sweeps(store)), []
    for sweep in store.sweeps():
        if sweep.name in searched:
            own = [row for row in rows if row.run_id in set(sweep.run_ids)]
            left = sum(row.status == "todo" for row in own)
            state = search_state(own)
            rest = "" if state.uncertain else f"; {count_text(left, 'run')} not needed for that"
            texts.append(f"{sweep.name}: {state.text()}{rest}")
    return tuple(texts)


def search_state(rows: Sequence[RunRow]) -> SearchState:
    """Of the cells of these rows."""
    cells = _cells(rows)
    rounds = [next_round(cell) for cell in cells]
    known = [cell for cell, left in zip(cells, rounds, strict=True) if _is_known(cell) and not left]
    return SearchState(
        cells=len(cells),
        known=len(known),
        unsolved=sum(window_outlook(cell).window is None for cell in known),
        uncertain=tuple(
            f"{cell.name} ({_unknown(cell)})"
            for cell, left in zip(cells, rounds, strict=True)
            if left
        ),
        runs=sum(map(len, rounds)),
    )


def _unknown(cell: Cell) -> str:
    """What the next round of a cell is for."""
    if not cell.scored_rates:
        return "first rates"
    outlook = window_outlook(cell)
    if outlook.window is None:
        return "peak"
    sides = zip(("lower", "upper"), outlook.edge_spread, strict=True)
    edges = " and ".join(side for side, spread in sides if spread >= TOLERANCE)
    return f"{edges} edge" if edges and not outlook.is_within(TOLERANCE) else "inside"


def _is_known(cell: Cell) -> bool:
    if not cell.scored_rates or any(row.status == "running" for row in cell.rows):
        return False
    return window_outlook(cell).is_within(TOLERANCE)


def _cells(rows: Sequence[RunRow]) -> tuple[Cell, ...]:
    return group_cells(rows) if rows else ()
