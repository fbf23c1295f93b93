"""The search over zoology's four rates alone."""

import pytest
from rows_made import make_sweep

from recollect.analysis import ZOOLOGY_RATES, group_cells, is_sparse_rate, sparse_best


def test_the_best_of_zoologys_four_rates():
    grid = {1e-4: [0.1], 4.642e-4: [0.4], 1e-3: [1.0], 2.154e-3: [0.3], 1e-2: [0.2], 1e-1: [0.9]}
    (cell,) = group_cells(make_sweep(grid))
    assert cell.best.lr == 1e-3
    assert (sparse_best(cell).lr, sparse_best(cell).mean) == (4.642e-4, 0.4)


@pytest.mark.parametrize("gone", ZOOLOGY_RATES)
def test_fewer_than_the_four_rates_are_another_search(gone):
    rows = make_sweep({rate: [0.5] for rate in (*ZOOLOGY_RATES, 3e-3)})
    (cell,) = group_cells([row for row in rows if row.spec["train"]["lr"] != gone])
    assert sparse_best(cell) is None


def test_rates_are_told_apart():
    assert [is_sparse_rate(rate) for rate in (4.64e-4, 4.642e-4, 5e-4, 1e-3, 1e-2)] == [
        True,
        True,
        False,
        False,
        True,
    ]
