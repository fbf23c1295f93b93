"""Windows and best scores of cells that were searched only: as good as those of whole grids."""

import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from rows_made import make_row, only_cell
from searched_cells import Played

from recollect.analysis import Cell
from recollect.reports.paper.claims.checks import at_most, below
from recollect.reports.paper.claims.measures import tuned, window
from recollect.reports.paper.study import RATES
from recollect.running.searching import best
from recollect.running.searching.edges import TOLERANCE
from recollect.running.searching.searches import IN_ROUNDS

Score = Callable[[float, int], float]


def whole(score: Score, seeds: int = 3) -> Cell:
    return only_cell([make_row("mamba", lr, s, score(lr, s)) for lr in RATES for s in range(seeds)])


def searched(cell: Cell, search: str = "edges") -> Cell:
    """What `--search` would have trained of it."""
    return Played(cell.rows, IN_ROUNDS[search].next_round).cell


def from_to(low: float, high: float, top: float = 0.99) -> Score:
    return lambda lr, seed: top - 0.001 * seed if low <= lr <= high else 0.1


@pytest.mark.parametrize("edges", [(1e-3, 1e-2), (1e-4, 3e-2), (3e-3, 3e-3)])
def test_the_window_is_that_of_the_whole_grid_within_the_tolerance(edges):
    cell = whole(from_to(*edges))
    full, found = (window(one, "mamba", True, 0.9) for one in (cell, searched(cell)))
    assert full.low == full.high
    assert full.low - TOLERANCE <= found.low <= found.high <= full.high + TOLERANCE
    assert found.lacks == ""
    assert re.search(r"searched with \d+ of 39 runs at \d+ rates", found.text)
    assert "searched" not in full.text


def plateau(lr: float, seed: int) -> float:
    """Solved to .92 over a decade, and to .97 by single seeds in its middle."""
    if not 1e-3 <= lr <= 1e-2:
        return 0.1
    return 0.92 + 0.02 * seed if lr in (3e-3, 5e-3) else 0.92


@pytest.mark.parametrize("tau", [0.9, 0.95, 0.98])
@pytest.mark.parametrize("score", [from_to(1e-3, 1e-2), plateau], ids=["clear", "plateau"])
@pytest.mark.parametrize("rounds", [None, 2, 3])
def test_without_texts_the_numbers_are_the_same(score, tau, rounds):
    """Also where the runs that were left out may change a window."""
    cell = searched(whole(score)) if rounds is None else begun(score, rounds)
    for measure in (
        lambda brief: window(cell, "mamba", True, tau, brief),
        lambda brief: tuned(cell, "mamba", True, brief),
    ):
        told, brief = measure(False), measure(True)
        assert (told.low, told.high, told.lacks) == (brief.low, brief.high, brief.lacks)
        assert brief.text in ("", "mamba")


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


def begun(score: Score, rounds: int) -> Cell:
    """What `--search edges` has trained of it after so many rounds."""
    return Played(whole(score).rows, IN_ROUNDS["edges"].next_round, rounds).cell


@pytest.mark.parametrize("edges", [(1e-3, 1e-2), (1e-4, 3e-2), (3e-4, 3e-2)])
def test_a_search_that_has_begun_tells_where_the_window_may_still_end(edges):
    full, found = (
        window(one, "mamba", True, 0.9)
        for one in (whole(from_to(*edges)), begun(from_to(*edges), 3))
    )
    assert 0 < found.low < full.low <= full.high < found.high < full.high + 2
    assert found.lacks == "mamba: its window to 0.1 decades"
    told = re.search(r"([\d.]+) to ([\d.]+) decades \(90 % sure so far, searched with", found.text)
    assert told
    assert [float(end) for end in told.groups()] == pytest.approx([found.low, found.high], abs=0.05)


def test_a_window_that_may_reach_the_end_of_the_grid_has_no_upper_bound():
    rows = [
        replace(row, status="todo", accuracy=None) if row.spec["train"]["lr"] == 0.3 else row
        for row in begun(from_to(1e-3, 1.0), 4).rows
    ]
    found = window(only_cell(rows), "mamba", True, 0.9)
    assert 1.5 < found.low < math.log10(0.3 / 1e-3)
    assert found.high == math.inf
    assert "at least" in found.text


def test_a_window_may_be_wide_before_its_edges_are_known():
    """Nothing of it is known after the first round: no rate has all its seeds."""
    first, third = (
        at_most(window(begun(from_to(1e-4, 3e-2), rounds), "mamba", True, 0.9), 1.0)
        for rounds in (1, 3)
    )
    assert (first.holds, third.holds) == (None, False)


def test_two_seeds_are_too_few_however_they_were_searched():
    assert window(searched(whole(from_to(1e-3, 1e-2), seeds=2)), "mamba", True, 0.9).lacks != ""


# ---- best scores ----


def hill(top: float) -> Score:
    """Highest at 1e-2, and falling on both sides of it."""
    return lambda lr, seed: (top + 0.002 * seed) / (1 + math.log10(lr / 1e-2) ** 2)


@pytest.mark.parametrize("top", [0.2, 0.6, 0.9])
def test_a_best_score_that_was_searched_for_is_that_of_the_whole_grid(top):
    cell = whole(hill(top))
    full, found = (tuned(one, "hyena", True) for one in (cell, searched(cell, "best")))
    assert full.low == full.high
    assert found.low <= full.low <= found.high
    assert found.high - found.low <= best.TOLERANCE
    assert found.lacks == ""
    assert re.search(
        r"3 seeds, best of \d rates .*: 1e-2; searched with \d+ of 39 runs at 1\d rates", found.text
    )
    assert "searched" not in full.text


def test_that_a_model_fails_is_known_after_the_search():
    failing = tuned(searched(whole(lambda lr, seed: 0.25), "best"), "attention", True)
    assert below(failing, 0.5).holds is True


def test_a_search_that_left_a_gap_says_no_more_than_at_least():
    cell = searched(whole(hill(0.6)), "best")
    rows = [
        replace(row, status="todo", accuracy=None)
        if 1e-4 <= row.spec["train"]["lr"] < 1e-3
        else row
        for row in cell.rows
    ]
    found = tuned(only_cell(rows), "hyena", True)
    assert found.high == 1.0
    assert "at least 8 rates" in found.lacks


def test_until_the_best_is_known_it_is_as_far_as_it_is():
    """One seed each at the top: the interval is wide, but not up to 1."""
    cell = searched(whole(hill(0.6)), "best")
    rows = [
        replace(row, status="todo", accuracy=None)
        if row.spec["seed"] and row.spec["train"]["lr"] > 3e-3
        else row
        for row in cell.rows
    ]
    found = tuned(only_cell(rows), "hyena", True)
    assert found.low < 0.6 < found.high < 0.95
    assert "its best score to 0.02" in found.lacks


def test_a_coarse_or_short_grid_is_not_searched_for_a_best():
    for rates in (RATES[::3], RATES[4:9]):
        rows = [make_row("mamba", lr, seed, 0.3) for lr in rates for seed in range(3)]
        cell = searched(only_cell(rows), "best")
        assert tuned(cell, "mamba", True).high == 1.0
