"""W against tau: closed forms, what must be monotone, and seeds that disagree."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows_made import make_row, make_sweep, only_cell

from recollect.analysis import TAU, TAUS, windows_by_threshold
from recollect.analysis.seeds.thresholds import DRAWN_TAUS

RATES = [1e-4, 1e-3, 1e-2, 1e-1]


def test_the_lines_that_claims_are_judged_at():
    assert TAUS == (TAU, 0.95, 0.98)
    assert set(TAUS) <= set(DRAWN_TAUS)


def test_a_triangle_narrows_evenly():
    """Scores fall by one per decade on both sides of the top: W(tau) = 2 (1 - tau)."""
    cell = only_cell(make_sweep({1e-3: [0.0] * 3, 1e-2: [1.0] * 3, 1e-1: [0.0] * 3}))
    for point in windows_by_threshold(cell):
        assert point.decades == pytest.approx(2 * (1 - point.tau))
        assert point.interval[0] <= point.decades <= point.interval[1]
        assert not point.is_open


def test_what_is_never_reached_and_where_the_grid_ends():
    cell = only_cell(make_sweep({1e-3: [0.97] * 3, 1e-2: [0.97] * 3}))
    found = windows_by_threshold(cell, (0.9, 0.98))
    assert [(point.decades, point.is_open) for point in found] == [(1.0, True), (0.0, False)]
    assert windows_by_threshold(only_cell([make_row(status="todo", score=None)])) == ()


def test_seeds_that_disagree_give_a_wide_interval_and_few_seeds_none():
    """One of three seeds fails at the edge: with others its rate may be inside or outside."""
    shared = {1e-3: [0.0] * 3, 1e-2: [1.0] * 3, 1e-1: [1.0, 1.0, 0.6], 1.0: [0.0] * 3}
    (point,) = windows_by_threshold(only_cell(make_sweep(shared)), (0.9,))
    outermost = 1 + 0.1 + 0.1  # both rates at 1: a tenth of a decade beyond each
    assert point.decades < outermost
    assert point.interval is not None
    assert point.interval[0] < point.decades < outermost <= point.interval[1] + 1e-9
    two = {rate: own[:2] for rate, own in shared.items()}
    (alone,) = windows_by_threshold(only_cell(make_sweep(two)), (0.9,))
    assert alone.interval is None


@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=4, max_size=4))
def test_a_higher_line_never_widens_a_window(seeds):
    cell = only_cell(make_sweep(dict(zip(RATES, seeds, strict=True))))
    found = windows_by_threshold(cell, draws=40)
    for low, high in pairwise(found):
        assert high.decades <= low.decades + 1e-12
        assert low.interval is not None
        assert high.interval is not None
        assert high.interval[0] <= low.interval[0] + 1e-12
        assert high.interval[1] <= low.interval[1] + 1e-12
    assert all(0 <= point.decades <= math.log10(RATES[-1] / RATES[0]) + 1e-12 for point in found)
    assert found == windows_by_threshold(cell, draws=40)
