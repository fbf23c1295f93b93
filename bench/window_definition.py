"""The window around the exact best rate against the one that is used:

`python bench/window_definition.py [ROOT]`

On all stores below ROOT (results): the windows that differ, and the 95 % intervals that differ by
more than SHOWN decades, with the share of the draws that differ. Of cells with too few seeds for
intervals, the share of RESAMPLED draws in which the window around the exact best rate is narrower
than half of the other. Last, the values of AS_GOOD that give other windows.
"""

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np

from recollect.analysis import TAUS, Cell, find_window, group_cells
from recollect.analysis.seeds import resample
from recollect.analysis.seeds.other_seeds import draw_means, draw_windows, interval_of
from recollect.analysis.windows import best_index
from recollect.reports.paper.evidence import join_stores, load_stores
from recollect.spec.recipes import recipe_of

SHOWN = 0.02  # decades
RESAMPLED = 4000
AS_GOOD_TRIED = (0.0, 0.001, 0.003, 0.03, 0.1, 1.0)


def width_around_best(rates: Sequence[float], scores: Sequence[float], tau: float) -> float:
    """Decades of the contiguous range of scores of at least tau around the exact best one."""
    best = best_index(scores)
    first = last = best
    while first > 0 and scores[first - 1] >= tau:
        first -= 1
    while last + 1 < len(scores) and scores[last + 1] >= tau:
        last += 1
    # The other ranges count as failed, so that this one is the window. Its neighbours keep their
    # scores, between which the edges are interpolated.
    near = range(first - 1, last + 2)
    alone = [score if place in near else 0.0 for place, score in enumerate(scores)]
    return width(rates, alone, tau)


def width(rates: Sequence[float], scores: Sequence[float], tau: float) -> float:
    found = find_window(rates, scores, tau)
    return found.decades if found else 0.0


def widths(cell: Cell, tau: float) -> tuple[float, float]:
    """Both windows of a cell: around the exact best rate, and as it is used."""
    rates = [rate.lr for rate in cell.scored_rates]
    means = [rate.mean for rate in cell.scored_rates]
    return width_around_best(rates, means, tau), width(rates, means, tau)


def name_of(cell: Cell) -> str:
    spec = cell.rows[0].spec
    task, model = spec["task"], spec["model"]
    place = f"({task.get('length')},{task.get('pairs')}), {model['depth']} layers"
    return f"{cell.mixer} {place}, width {model['width']}, {recipe_of(spec)}"


def compare_windows(cells: Sequence[Cell]) -> None:
    for cell in cells:
        for tau in TAUS:
            before, now = widths(cell, tau)
            if abs(now - before) > 1e-9:
                print(f"window at {tau:g}: {before:.2f} -> {now:.2f}: {name_of(cell)}")


def compare_intervals(cells: Sequence[Cell]) -> None:
    counted = 0
    for cell in cells:
        made, drawn = draw_means(cell), draw_windows(cell, TAUS)
        if made is None or drawn is None:
            continue
        counted += 1
        rates, means = made
        for tau, found in zip(TAUS, drawn, strict=True):
            before = np.array([width_around_best(rates, row, tau) for row in means.tolist()])
            ends = interval_of(before), interval_of(found.widths)
            if np.abs(np.subtract(*ends)).max() > SHOWN:
                share = np.mean(np.abs(before - found.widths) > 1e-9)
                told = " -> ".join(f"{low:.2f} to {high:.2f}" for low, high in ends)
                print(f"interval at {tau:g}: {told} ({share:.1%} of draws): {name_of(cell)}")
    print(f"{counted} cells have intervals")


def compare_resamples(cells: Sequence[Cell]) -> None:
    for cell in cells:
        if draw_means(cell, 1) is not None or not cell.window():
            continue
        drawn = [resample(cell, random.Random(number)) for number in range(RESAMPLED)]
        both = [widths(own, TAUS[0]) for own in drawn]
        collapsed = sum(before < now / 2 for before, now in both)
        if collapsed:
            least, most = (end(now for _, now in both) for end in (min, max))
            share = (
                f"{collapsed / RESAMPLED:.1%} of resamples, now {least:.1f} to {most:.1f} in all"
            )
            print(f"collapsed in {share}: {name_of(cell)}")


def vary_as_good(cells: Sequence[Cell]) -> None:
    used = [widths(cell, tau)[1] for cell in cells for tau in TAUS]
    for value in AS_GOOD_TRIED:
        with patch("recollect.analysis.windows.AS_GOOD", value):
            found = [widths(cell, tau)[1] for cell in cells for tau in TAUS]
        print(
            f"AS_GOOD = {value:g}: {sum(a != b for a, b in zip(used, found, strict=True))} differ"
        )


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("results")
    cells = [cell for cell in group_cells(join_stores(load_stores(root)).rows) if cell.scored_rates]
    solved = sum(cell.window() is not None for cell in cells)
    print(f"{len(cells)} cells, {solved} of them solved")
    compare_windows(cells)
    compare_intervals(cells)
    compare_resamples(cells)
    vary_as_good(cells)


if __name__ == "__main__":
    main()
