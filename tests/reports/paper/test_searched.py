"""Of which cells a window is known: one rule for figures, pages and causes."""

import pytest
from rows_made import make_row, make_sweep

from recollect.analysis import group_cells
from recollect.reports.paper.searched import is_searched

HALF_DECADES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)


def cell(rates, solved):
    return group_cells(make_sweep({lr: [1.0 if lr in solved else 0.1] for lr in rates}))[0]


@pytest.mark.parametrize(
    ("rates", "solved", "known"),
    [
        ((1e-3, 3e-3, 1e-2), (3e-3,), True),  # both edges lie between rates half a decade apart
        ((1e-3, 3e-3, 1e-2), (3e-3, 1e-2), False),  # the grid ends first, after a decade
        ((5e-3, 1e-2), (5e-3, 1e-2), False),
        ((5e-3, 1e-2), (), False),
        ((1e-3,), (1e-3,), False),
        (HALF_DECADES, HALF_DECADES, True),  # at least two decades
        (HALF_DECADES, (), True),  # none
        ((1e-4, 1e-3, 1e-2), (1e-3,), True),
        ((1e-4, 1e-2, 1e-1), (1e-2,), False),  # two decades apart
    ],
)
def test_a_window_is_known_by_its_edges_or_by_a_wide_search(rates, solved, known):
    assert is_searched(cell(rates, solved)) is known


def test_a_cell_without_a_result_was_not_searched():
    rows = [make_row(lr=lr, status="todo", score=None) for lr in HALF_DECADES]
    assert not is_searched(group_cells(rows)[0])
