"""The searches that go in rounds, and their progress.

Each finds out one quantity of every cell of a sweep:

  edges   the window W(.9) of each cell (searching/edges.py)
  best    the best score of each cell (searching/best.py)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recollect.analysis import TAU, Cell, count_text
from recollect.analysis.seeds.prediction import CONFIDENCE
from recollect.rows import RunRow
from recollect.running.searching import best, edges
from recollect.running.searching.outlook import best_outlook, window_outlook

MOST_NAMES = 6  # the most cells named in a line


@dataclass(frozen=True)
class Search:
    """One kind of search: its aim and its rules for a cell."""

    aim: str  # the quantity that it finds out about a cell
    precision: str  # of that quantity
    next_round: Callable[[Cell], list[RunRow]]  # empty when the cell is done
    is_known: Callable[[Cell], bool]  # requires a cell with at least one score
    unknown: Callable[[Cell], str]  # the purpose of the next round; requires a score too
    remark: Callable[[Sequence[Cell]], str]  # on the cells whose aim is known
    share: str  # of the run-steps of stored grids of 13 rates, measured (docs/decisions)
    likely: float  # share of the runs of a cell that it trains, the mean of these grids


@dataclass(frozen=True)
class SearchState:
    """The progress of the search of a sweep."""

    search: Search
    known: tuple[Cell, ...]
    uncertain: tuple[str, ...]  # cells with a next round: name and purpose of the round
    cells: int
    runs: int  # in the next rounds of all cells

    def text(self) -> str:
        found = (
            f"{len(self.known)} of {count_text(self.cells, self.search.aim)} known to "
            f"+-{self.search.precision} ({CONFIDENCE:.0%} sure){self.search.remark(self.known)}"
        )
        if not self.uncertain:
            return found
        more = len(self.uncertain) - MOST_NAMES
        names = ", ".join(self.uncertain[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        return f"{found}; next {count_text(self.runs, 'run')} of {names}"


def search_state(search: Search, cells: Sequence[Cell]) -> SearchState:
    """The progress of a search over these cells."""
    rounds = [search.next_round(cell) for cell in cells]
    done = [cell for cell, left in zip(cells, rounds, strict=True) if not left]
    open_ = [cell for cell, left in zip(cells, rounds, strict=True) if left]
    return SearchState(
        search,
        known=tuple(cell for cell in done if _is_known(search, cell)),
        uncertain=tuple(
            f"{cell.name} ({search.unknown(cell) if cell.scored_rates else 'first rates'})"
            for cell in open_
        ),
        cells=len(cells),
        runs=sum(map(len, rounds)),
    )


def next_runs(search: Search, cells: Sequence[Cell]) -> tuple[str, ...]:
    """Ids of the runs in the next rounds of all these cells; empty when all are done."""
    return tuple(row.run_id for cell in cells for row in search.next_round(cell))


def likely_runs(search: Search, cell: Cell) -> int:
    """How many todo runs of a cell its search should train: as many as on stored grids, but at
    least the next round. 0 only if it is over: runs in training may call for one more.
    """
    left = sum(row.status == "todo" for row in cell.rows)
    next_ = len(search.next_round(cell))
    if not next_ and all(row.status != "running" for row in cell.rows):
        return 0
    return min(left, max(next_, 1, round(search.likely * len(cell.rows)) - (len(cell.rows) - left)))


def _is_known(search: Search, cell: Cell) -> bool:
    if not cell.scored_rates or any(row.status == "running" for row in cell.rows):
        return False
    return search.is_known(cell)


# ---- edges ----


def _unknown_edges(cell: Cell) -> str:
    outlook = window_outlook(cell)
    if outlook.window is None:
        return "peak"
    sides = zip(("lower", "upper"), outlook.edge_spread, strict=True)
    unknown = " and ".join(side for side, spread in sides if spread >= edges.TOLERANCE)
    return f"{unknown} edge" if unknown and not edges.is_known(cell) else "inside"


def _without_window(cells: Sequence[Cell]) -> str:
    none = sum(cell.window() is None for cell in cells)
    return f", {none} of them none: not solved" if none else ""


# ---- best ----


def _unknown_best(cell: Cell) -> str:
    return "its seeds" if best_outlook(cell).best >= 1 - best.TOLERANCE else "best rate"


def _below_tau(cells: Sequence[Cell]) -> str:
    below = sum(best_outlook(cell).best < TAU for cell in cells)
    return f", {below} of them below {TAU:g}" if below else ""


IN_ROUNDS = {
    "edges": Search(
        "window",
        f"{edges.TOLERANCE:g} decades",
        edges.next_round,
        edges.is_known,
        _unknown_edges,
        _without_window,
        "25 to 48 %",
        0.38,
    ),
    "best": Search(
        "best score",
        f"{best.TOLERANCE:g}",
        best.next_round,
        best.is_known,
        _unknown_best,
        _below_tau,
        "22 to 31 %",
        0.21,
    ),
}
