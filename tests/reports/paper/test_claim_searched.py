"""Windows of cells that were searched at their edges only: as good as those of whole grids."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from rows_made import make_row, only_cell

from recollect.analysis import Cell
from recollect.reports.paper.claims.measures import tuned, window
from recollect.reports.paper.study import RATES
from recollect.running.planning.edges import TOLERANCE, next_round

Score = Callable[[float, int], float]


def whole(score: Score, seeds: int = 3) -> Cell:
    return only_cell([make_row("mamba", lr, s, score(lr, s)) for lr in RATES for s in range(seeds)])


def searched(cell: Cell) -> Cell:
    """What `--search edges` would have trained of it."""
    truth = {row.run_id: row for row in cell.rows}
    rows = {i: replace(row, status="todo", accuracy=None) for i, row in truth.items()}
    while chosen := next_round(only_cell(list(rows.values()))):
        rows |= {row.run_id: truth[row.run_id] for row in chosen}
    return only_cell(list(rows.values()))


def from_to(low: float, high: float, top: float = 0.99) -> Score:
    return lambda lr, seed: top - 0.001 * seed if low <= lr <= high else 0.1


@pytest.mark.parametrize("edges", [(1e-3, 1e-2), (1e-4, 3e-2), (3e-3, 3e-3)])
def test_the_window_is_that_of_the_whole_grid_within_the_tolerance(edges):
    cell = whole(from_to(*edges))
    full, found = (window(one, "mamba", True, 0.9) for one in (cell, searched(cell)))
    assert full.low == full.high
    assert full.low - TOLERANCE <= found.low <= found.high <= full.high + TOLERANCE
    assert found.lacks == ""
    assert "searched at its edges" in found.text
    assert "searched" not in full.text


def test_the_best_score_is_known_from_all_seeds_of_one_rate():
    found = tuned(searched(whole(from_to(1e-3, 1e-2))), "mamba", True)
    assert found.low == pytest.approx(0.989)
    assert "3 seeds" in found.text


def test_no_window_is_a_width_of_nought():
    found = window(searched(whole(from_to(1e-3, 1e-2, top=0.5))), "mamba", True, 0.9)
    assert (found.low, found.high, found.lacks) == (0.0, 0.0, "")


def test_a_window_to_the_end_of_the_grid_is_a_lower_bound():
    found = window(searched(whole(from_to(1e-3, 1.0))), "mamba", True, 0.9)
    assert found.low == pytest.approx(math.log10(0.3 / 1e-3), abs=0.2)
    assert found.high == math.inf
    assert "larger rates" in found.lacks


def test_what_is_not_known_yet_still_lacks_something():
    cell = searched(whole(from_to(1e-3, 1e-2)))
    early = [
        replace(row, status="todo", accuracy=None) if row.spec["train"]["lr"] < 3e-3 else row
        for row in cell.rows
    ]
    assert window(only_cell(early), "mamba", True, 0.9).lacks != ""


def test_two_seeds_are_too_few_however_they_were_searched():
    assert window(searched(whole(from_to(1e-3, 1e-2), seeds=2)), "mamba", True, 0.9).lacks != ""
