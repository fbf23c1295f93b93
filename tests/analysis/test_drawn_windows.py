"""Windows of many draws at once against `find_window`, draw by draw."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.analysis import find_window
from recollect.analysis.seeds.drawn_windows import find_windows

TAUS = (0.05, 0.5, 0.9, 0.95, 0.985, 1.0)
# Scores that tie, lie on tau, or are within a hundredth of each other.
LEVELS = (0.0, 0.04, 0.3, 0.5, 0.89, 0.9, 0.95, 0.98, 0.985, 0.99, 0.995, 1.0)


def check(rates, means):
    """Every draw has the window that `find_window` gives, to the rounding of a logarithm."""
    means = np.array(means, dtype=float).reshape(-1, len(rates))
    for tau in TAUS:
        found = find_windows(rates, means, tau)
        wanted = [find_window(rates, scores, tau) for scores in means.tolist()]
        solved = [window for window in wanted if window]
        widths = [window.decades if window else 0.0 for window in wanted]
        assert found.widths.tolist() == pytest.approx(widths, rel=0, abs=1e-12)
        assert found.low.tolist() == pytest.approx([window.low for window in solved], rel=1e-12)
        assert found.high.tolist() == pytest.approx([window.high for window in solved], rel=1e-12)


@pytest.mark.parametrize("count", [1, 2, 5, 13])
@pytest.mark.parametrize("is_even", [True, False])
def test_random_draws_have_the_windows_of_single_calls(count, is_even):
    draw = np.random.RandomState(count)
    steps = np.full(count, 0.5) if is_even else draw.uniform(0.1, 1.0, count)
    rates = (10 ** (-5 + np.cumsum(steps))).tolist()
    check(rates, draw.choice(LEVELS, (400, count)))
    check(rates, draw.choice((0.0, 0.99, 0.995, 1.0), (400, count)))
    check(rates, draw.uniform(0, 1, (100, count)))
    check(rates, np.round(draw.uniform(0.88, 1, (100, count)), 3))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.sampled_from(LEVELS), min_size=7, max_size=7), min_size=1, max_size=8))
def test_any_draws_have_the_windows_of_single_calls(means):
    check([10 ** (-4.1 + 0.3 * step) for step in range(7)], means)


@pytest.mark.parametrize(
    "scores",
    [
        [0, 1, 1, 0, 0.995, 0, 0],  # an island
        [0, 0.999, 0.999, 0, 0, 0, 1],  # an island with the best score, at the end of the grid
        [1, 1, 0, 0, 0, 1, 1],  # both ends open, equally wide
        [0, 1, 0, 1, 0, 1, 0],
        [0, 1, 0, 0.995, 0, 1, 0],
        [1] * 7,
        [0] * 7,
        [0.9] * 7,
        [0.2, 0.9, 0.2, 0.9, 0.2, 0.9, 0.2],  # no width
        [0.94, 0.94, 0.94, 0, 0.95, 0, 0.96],
        [0.09, 0.09, 0.09, 0, 0.1, 0, 0],  # 0.1 - 0.01 is above 0.09
    ],
)
def test_special_draws(scores):
    rates = [10 ** (-4.1 + 0.3 * step) for step in range(7)]
    check(rates, [scores])
    check(rates, [scores, [0] * 7, scores[::-1], [1] * 7])


def test_a_draw_that_is_never_solved_has_no_edges():
    found = find_windows([1e-3, 1e-2, 1e-1], np.array([[0.0, 0.1, 0.0], [0.0, 1.0, 0.5]]), 0.9)
    assert found.widths.tolist() == [0.0, pytest.approx(0.3)]
    assert found.low.tolist() == [pytest.approx(10**-2.1)]
    assert found.high.tolist() == [pytest.approx(10**-1.8)]
    none = find_windows([1e-3, 1e-2], np.zeros((3, 2)), 0.9)
    assert none.widths.tolist() == [0.0] * 3
    assert len(none.low) == len(none.high) == 0
