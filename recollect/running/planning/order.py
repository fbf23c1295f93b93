"""Chooses what a folder trains next: its sweeps in the order of planning, each as requested. Sweeps
named in the command come first.

A sweep is trained in full, or only as far as a search needs (searching/searches.py); the folder
remembers which. Runs that were begun come before all sweeps. On a GPU, which a round of one sweep
may not fill, rounds of several sweeps form one stage, and what is left of sweeps trained in full
joins it; runs of earlier sweeps come first in it, and within a sweep those of cells that have a
result: when time ends, fewer cells are half searched.
Within a budget the most telling runs of a sweep come first (planning/priority.py), unless
`--search all` was requested: then one cell is completed after another, the cheapest first. All of
it is read from the store, so a stopped folder continues where it was.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from recollect.analysis import Cell, count_text, group_cells
from recollect.analysis.cells import Grouping
from recollect.rows import RunRow
from recollect.running.events import Event, SearchRound, ignore
from recollect.running.planning.priority import Name, Stage, next_stage
from recollect.running.searching.searches import (
    IN_ROUNDS,
    likely_runs,
    next_runs,
    search_state,
)
from recollect.spec.cell import cell_id
from recollect.store import Store
from recollect.store.schema import TRAINED_AS

IN_FULL = "all"

NextStage = Callable[[Sequence[RunRow]], Stage | None]


def remember_search(store: Store, names: Iterable[str], search: str | None) -> None:
    """Store how these sweeps are trained from now on; None means in full and in any order."""
    for kind, key in TRAINED_AS.items():
        before = set(store.names(key))
        after = before | set(names) if search == kind else before - set(names)
        if after != before:
            store.set_meta(key, json.dumps(sorted(after)))


def searched_sweeps(store: Store) -> dict[str, str]:
    """The kind of search of each sweep whose search is not over, by name of the sweep."""
    return {name: kind for kind in IN_ROUNDS for name in store.names(TRAINED_AS[kind])}


def sweeps_by_name(store: Store) -> dict[str, frozenset[str]]:
    """The run ids of each sweep, by name and in the order of planning.

    A sweep whose file has changed and which was planned again has the runs of both versions.
    """
    found: dict[str, frozenset[str]] = {}
    for sweep in store.sweeps():
        found[sweep.name] = found.get(sweep.name, frozenset()) | frozenset(sweep.run_ids)
    return found


def order_of(
    store: Store,
    within_budget: bool,
    listen: Callable[[Event], None] = ignore,
    wanted: int = 1,
    first: Sequence[tuple[str, frozenset[str]]] = (),
) -> NextStage:
    """Return a function that chooses the next stage of the folder from its rows.

    The function returns None when nothing requested is left. `wanted`: the number of runs that a
    stage should have; rounds of the following sweeps are added to a round, and runs of later stages
    of the sweep to another stage. `first`: sweeps that come before all others, with
    their run ids; what another plan of the same name has comes in its own turn.
    """
    searched, in_full = searched_sweeps(store), set(store.names(TRAINED_AS[IN_FULL]))
    sweeps = list(dict.fromkeys([*first, *sweeps_by_name(store).items()]))
    told: dict[int, str] = {}  # by place in `sweeps`: the last text about each search
    groupings: dict[int, Grouping] = {}  # the cells of each searched sweep

    def next_round(place: int, name: str, own: Sequence[RunRow]) -> dict[str, int]:
        """The next round of a searched sweep, with ranks; a listener hears of it."""
        search = IN_ROUNDS[searched[name]]
        if place not in groupings:
            groupings[place] = Grouping(own)
        cells = groupings[place].cells(own)
        chosen = next_runs(search, cells)
        if not chosen:
            return {}
        text = search_state(search, cells).text()
        if told.get(place) != text:
            told[place] = text
            likely = {_id(cell): likely_runs(search, cell) for cell in cells}
            listen(SearchRound(name, text, likely))
        continued = _in_begun_cells(cells)
        return {run_id: 2 * place + (run_id not in continued) for run_id in chosen}

    def choose(rows: Sequence[RunRow]) -> Stage | None:
        begun = tuple(row.run_id for row in rows if row.status == "todo" and row.attempt > 0)
        if begun:
            return Stage("begun", begun)
        ranks: dict[str, int] = {}
        kind: Name = "rest"
        for place, (name, run_ids) in enumerate(sweeps):
            own = [row for row in rows if row.run_id in run_ids]
            if name in searched:
                found = next_round(place, name, own)
                kind = "round" if found else kind
            elif within_budget and name not in in_full:
                stage = next_stage(own, wanted)
                if stage is not None and not ranks:
                    return stage
                if stage is not None:
                    break  # its runs follow from the results of those before it
                found = {}
            else:
                found = {row.run_id: 2 * place for row in own if row.status == "todo"}
            # A run of several sweeps belongs to the first.
            ranks |= {run_id: rank for run_id, rank in found.items() if run_id not in ranks}
            if len(ranks) >= wanted:
                break
        return Stage(kind, tuple(ranks), ranks) if ranks else None

    return choose


def _in_begun_cells(cells: Iterable[Cell]) -> set[str]:
    """The runs of all cells that have a result."""
    return {row.run_id for cell in cells if cell.scored_rates for row in cell.rows}


@dataclass(frozen=True)
class AskedFor:
    """The todo runs of a folder that a sweep still needs or may need."""

    in_full: frozenset[str]
    searched: frozenset[str]  # a search will choose some of these
    # By cell id: how many todo runs of a cell that is searched should be trained.
    likely: Mapping[str, int] = field(default_factory=dict)

    @property
    def runs(self) -> frozenset[str]:
        return self.in_full | self.searched


def asked_for(store: Store, rows: Sequence[RunRow], only: str | None = None) -> AskedFor:
    """Return the todo runs that are or may be needed; no search needs the others. `only`: the name
    of the sweep that needs them.
    """
    searched = searched_sweeps(store)
    todo = {row.run_id for row in rows if row.status == "todo"}
    sweeps = sweeps_by_name(store)
    sweeps = sweeps if only is None else {only: sweeps[only]}
    in_full = {i for name in sweeps.keys() - searched.keys() for i in sweeps[name]} & todo
    open_: set[str] = set()
    likely: Counter[str] = Counter()
    for name in sweeps.keys() & searched.keys():
        search, run_ids = IN_ROUNDS[searched[name]], sweeps[name]
        for cell in group_cells([row for row in rows if row.run_id in run_ids]):
            own = {row.run_id for row in cell.rows} & todo
            if search.next_round(cell) or any(row.status == "running" for row in cell.rows):
                open_ |= own
            number = len(own & in_full) + likely_runs(search, cell)
            likely[_id(cell)] = max(likely[_id(cell)], min(number, len(own)))
    return AskedFor(frozenset(in_full), frozenset(open_ - in_full), likely)


def _id(cell: Cell) -> str:
    return cell_id(cell.rows[0].spec)


def search_texts(store: Store, rows: Sequence[RunRow]) -> tuple[str, ...]:
    """The progress of each sweep's search, as text."""
    searched, texts = searched_sweeps(store), []
    for name, run_ids in sweeps_by_name(store).items():
        if name in searched:
            own = [row for row in rows if row.run_id in run_ids]
            left = sum(row.status == "todo" for row in own)
            state = search_state(IN_ROUNDS[searched[name]], group_cells(own))
            is_over = left > 0 and not state.uncertain
            rest = f"; {count_text(left, 'run')} not needed for that" if is_over else ""
            texts.append(f"{name}: {state.text()}{rest}")
    return tuple(texts)
