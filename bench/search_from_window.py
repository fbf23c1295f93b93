"""Whether a search for edges should begin at the window of a similar cell, replayed on whole grids:

    python bench/search_from_window.py results/h200/campaign results/paper/fig1 --made 150

Instead of rates a decade apart, the first round has the rates just inside and just outside of both
edges of a known window. If none of them solves the task, the search begins as usual. Compared are
windows of other stored cells of the same mixer, of each cell itself, and of made-up cells with
edges that are off by so many decades.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from unittest.mock import patch

from search_replay import RATES, Replay, made_cells, replay, whole_cells

from recollect.analysis import Cell
from recollect.running.searching import edges
from recollect.running.searching.rounds import is_tried

Pair = tuple[Cell, float, float]  # a cell, and the ends of the window that its search begins at
OFF_BY = (0.0, 0.2, 0.5, 1.0)  # decades

usual_places, usual_round = edges.coarse_places, edges._choose


def places_around(low: float, high: float) -> Callable[[Sequence[float]], list[int]]:
    """A choice of first rates: those next to both ends of a window."""

    def choose(rates: Sequence[float]) -> list[int]:
        inside = [i for i, lr in enumerate(rates) if low * (1 - 1e-9) <= lr <= high * (1 + 1e-9)]
        if not inside:
            return usual_places(rates)
        beside = {inside[0] - 1, inside[0], inside[-1], inside[-1] + 1}
        return sorted(beside & set(range(len(rates))))

    return choose


def replay_from(cell: Cell, low: float, high: float) -> Replay:
    first = places_around(low, high)

    def choose(now: Cell, tau: float) -> dict[int, int]:
        tried = all(is_tried(now.rates[index]) for index in first([rate.lr for rate in now.rates]))
        if tried and now.window(tau) is None:
            return usual_round(now, tau)
        with patch.object(edges, "coarse_places", first):
            return usual_round(now, tau)

    with patch.object(edges, "_choose", choose):
        return replay(cell, "edges")


def compare(name: str, pairs: Sequence[Pair]) -> None:
    usual = [replay(cell, "edges") for cell, _, _ in pairs]
    begun = [replay_from(*pair) for pair in pairs]
    print(f"{name}: {len(pairs)} searches; usual {told(usual)}; from a window {told(begun)}")


def told(found: Sequence[Replay]) -> str:
    share = sum(one.run_steps for one in found) / sum(one.all_run_steps for one in found)
    rounds = sum(len(one.rounds) for one in found) / len(found)
    right = sum(one.is_right for one in found)
    return f"{right} right, {share:.1%} of the run-steps, {rounds:.1f} rounds"


def solved(cells: Sequence[Cell]) -> list[Pair]:
    windows = [(cell, cell.window()) for cell in cells]
    return [(cell, window.low, window.high) for cell, window in windows if window]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--made", type=int, default=0, metavar="N", help="so many made-up cells")
    parser.add_argument("--seed", type=int, default=7, help="draws the made-up cells")
    asked = parser.parse_args()
    stored = [cell for folder in asked.folders for cell in whole_cells(folder)[0]]
    windows = {id(cell): (low, high) for cell, low, high in solved(stored)}
    full = [cell for cell in stored if len(cell.rates) == len(RATES)]
    others = [
        (cell, *windows[id(other)])
        for other, cell in permutations(stored, 2)
        if cell in full and id(other) in windows and cell.mixer == other.mixer
    ]
    compare("of another cell of the mixer", others)
    compare("of the cell itself", solved(full))
    made = solved(list(made_cells(asked.made, asked.seed)))
    for off_by in OFF_BY if made else ():
        draw = random.Random(asked.seed)
        moved = [
            (cell, low * 10 ** draw.gauss(0, off_by), high * 10 ** draw.gauss(0, off_by))
            for cell, low, high in made
        ]
        compare(f"made-up, off by {off_by:g}", moved)


if __name__ == "__main__":
    main()
