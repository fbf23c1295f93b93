"""Of which cells a window is known: to show it in figures and pages, to compare it."""

import pytest
from rows_made import make_row, make_sweep

from recollect.analysis import group_cells
from recollect.reports.paper.searched import is_measured, is_searched

HALF_DECADES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)


def cell(rates, solved):
    return group_cells(make_sweep({lr: [1.0 if lr in solved else 0.1] for lr in rates}))[0]


@pytest.mark.parametrize(
    ("rates", "solved", "known"),
    [
        ((1e-3, 3e-3, 1e-2), (3e-3,), True),  # both edges lie between rates half a decade apart
        ((1e-4, 1e-3, 1e-2), (1e-3,), False),  # interpolated over a decade
        ((1e-4, 1e-3, 3e-3, 1e-2), (1e-3, 3e-3), False),  # the lower edge
        ((1e-3, 3e-3, 1e-2, 1e-1), (3e-3, 1e-2), False),  # the upper edge
        ((1e-5, 1e-3, 3e-3, 1e-2, 1.0), (3e-3,), True),  # wide gaps further out
        ((1e-3, 3e-3, 3e-2, 1e-1), (3e-3, 3e-2), True),  # and inside
        ((1e-4, 1e-2, 1e-1), (1e-2,), False),
    ],
)
def test_a_closed_window_is_known_by_the_rates_around_its_edges(rates, solved, known):
    assert is_measured(cell(rates, solved)) is known


@pytest.mark.parametrize(
    ("rates", "solved", "known"),
    [
        (HALF_DECADES, HALF_DECADES, True),  # at least two decades
        (HALF_DECADES, HALF_DECADES[1:], True),
        (HALF_DECADES, HALF_DECADES[:-1], True),
        ((1e-4, 1e-3, 1e-2), (1e-4, 1e-3, 1e-2), True),  # no edge to interpolate
        ((1e-4, 1e-3, 1e-2), (1e-3, 1e-2), False),  # the closed end is interpolated over a decade
        ((1e-4, 1e-3, 1e-2), (1e-4, 1e-3), False),
        ((1e-4, 1e-3, 3e-3, 1e-2), (3e-3, 1e-2), True),
        ((1e-4, 1e-2, 3e-2), (1e-4, 1e-2), False),  # two decades apart
        ((1e-3, 3e-3, 1e-2), (3e-3, 1e-2), False),  # the grid ends first, after a decade
        ((5e-3, 1e-2), (5e-3, 1e-2), False),
        ((1e-3,), (1e-3,), False),
    ],
)
def test_an_open_window_needs_a_wide_search_and_a_fine_closed_end(rates, solved, known):
    assert is_measured(cell(rates, solved)) is known


@pytest.mark.parametrize(
    ("rates", "known"),
    [
        (HALF_DECADES, True),
        ((1e-4, 1e-3, 1e-2), True),
        ((1e-4, 1e-2, 1e-1), False),  # two decades apart
        ((1e-3, 3e-3, 1e-2), False),  # one decade in all
        ((5e-3, 1e-2), False),
        ((1e-3,), False),
    ],
)
def test_that_there_is_no_window_is_known_after_a_wide_search(rates, known):
    assert is_measured(cell(rates, ())) is known


@pytest.mark.parametrize(
    ("rates", "solved", "shown"),
    [
        ((1e-4, 1e-3, 1e-2), (1e-3,), True),  # a usual grid: better than to say nothing
        ((1e-4, 1e-3, 1e-2), (1e-3, 1e-2), True),
        ((1e-4, 1e-2, 1e-1), (1e-2,), False),  # interpolated over two decades
        ((1e-4, 1e-2, 1e-1), (1e-2, 1e-1), False),
        ((1e-3, 1e-2), (1e-2,), False),
    ],
)
def test_a_window_that_is_only_shown_may_be_interpolated_over_a_decade(rates, solved, shown):
    assert is_searched(cell(rates, solved)) is shown
    assert not is_measured(cell(rates, solved))


@pytest.mark.parametrize("lowest", [1e-4, 3e-4, 7e-4])
def test_an_edge_on_a_rate_belongs_to_the_gap_beyond_it(lowest):
    """A score of exactly tau puts the edge on the rate itself, to a rounding error."""
    scores = {lowest: 0.1, 2 * lowest: 0.9, 20 * lowest: 1.0, 40 * lowest: 0.9, 80 * lowest: 0.1}
    sweep = {lr: [score] for lr, score in scores.items()}
    assert is_measured(group_cells(make_sweep(sweep))[0])
    del sweep[lowest], sweep[80 * lowest]
    wide = {lowest / 10: [0.1], **sweep, 80 * lowest: [0.1]}
    assert not is_measured(group_cells(make_sweep(wide))[0])


def test_a_rate_just_below_tau_is_outside():
    sweep = {1e-5: [0.1], 1e-3: [0.9 - 1e-12], 3e-3: [1.0], 1e-2: [0.1]}
    assert is_measured(group_cells(make_sweep(sweep))[0])


def test_a_cell_without_a_result_was_not_searched():
    rows = [make_row(lr=lr, status="todo", score=None) for lr in HALF_DECADES]
    assert not is_measured(group_cells(rows)[0])
