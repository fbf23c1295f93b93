"""Windows and grid luck against answers worked out by hand and by frequency."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.analysis import (
    SEARCH_RANGE,
    ZOOLOGY_RATES,
    Window,
    find_window,
    grid_luck,
    rate_text,
)
from recollect.analysis.windows import best_index
from recollect.errors import SpecError

DECADES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)

# --- windows


def test_edges_are_interpolated_in_log_rate():
    window = find_window(DECADES, [0.5, 0.8, 1.0, 1.0, 0.6], tau=0.9)
    # Left: half of the way from 1 to .8. Right: a quarter of the way from 1 to .6.
    assert window.low == pytest.approx(10**-3.5)
    assert window.high == pytest.approx(10**-1.75)
    assert window.decades == pytest.approx(1.75)
    assert not window.is_open


def test_a_window_is_open_where_the_grid_ends():
    window = find_window(DECADES, [0.95, 1.0, 0.95, 0.45, 0.4], tau=0.9)
    assert (window.low, window.open_low, window.open_high) == (1e-5, True, False)
    assert window.high == pytest.approx(10**-2.9)
    flat = find_window(DECADES, [1.0] * 5)
    assert (flat.low, flat.high, flat.open_low, flat.open_high) == (1e-5, 1e-1, True, True)
    assert flat.decades == pytest.approx(4)


def test_of_two_humps_the_one_with_the_best_score_counts():
    window = find_window(DECADES, [0.95, 0.5, 0.7, 1.0, 0.5], tau=0.9)
    assert 1e-3 < window.low < 1e-2 < window.high < 1e-1


def test_exactly_tau_is_inside_and_the_edge_is_there():
    window = find_window(DECADES[:3], [0.2, 0.9, 0.2], tau=0.9)
    assert window.low == pytest.approx(1e-4)
    assert window.decades == pytest.approx(0, abs=1e-12)


def test_a_single_rate_has_no_width_and_is_open_on_both_sides():
    window = find_window([1e-3], [1.0])
    assert (window.decades, window.open_low, window.open_high) == (0, True, True)


def test_no_window_below_tau_or_without_rates():
    assert find_window(DECADES, [0.89] * 5, tau=0.9) is None
    assert find_window([], []) is None


@pytest.mark.parametrize(
    ("scores", "where"),
    [([1, 1, 1], 1), ([0, 1, 1, 0], 1), ([3, 1, 3], 0), ([2], 0), ([0, 5, 1], 1)],
)
def test_of_equal_scores_the_middle_one_is_best(scores, where):
    assert best_index(scores) == where


@pytest.mark.parametrize(
    ("rates", "scores", "tau", "rule"),
    [
        ([1e-3], [1.0, 1.0], 0.9, "one score per rate"),
        ([1e-2, 1e-3], [1.0, 1.0], 0.9, "must be positive and ascending"),
        ([1e-3, 1e-3], [1.0, 1.0], 0.9, "must be positive and ascending"),
        ([0.0, 1e-3], [1.0, 1.0], 0.9, "must be positive and ascending"),
        ([1e-3], [math.nan], 0.9, "not finite"),
        ([1e-3], [1.0], 1.5, "tau = 1.5: must be above 0 and at most 1"),
    ],
)
def test_bad_input_to_a_window_is_refused(rates, scores, tau, rule):
    with pytest.raises(SpecError, match=rule) as refusal:
        find_window(rates, scores, tau)
    assert len(str(refusal.value).splitlines()) <= 3


@given(
    st.lists(
        st.tuples(st.floats(-6, 1), st.floats(0, 1)),
        min_size=1,
        max_size=12,
        unique_by=lambda p: round(p[0], 3),
    ),
    st.floats(0.05, 1),
)
def test_a_window_lies_in_the_grid_holds_the_best_rate_and_shrinks_with_tau(points, tau):
    points = sorted((10**x, y) for x, y in points)
    rates, scores = [x for x, _ in points], [y for _, y in points]
    window = find_window(rates, scores, tau)
    assert (window is None) == (max(scores) < tau)
    if window:
        slack = 1 + 1e-9
        assert rates[0] <= window.low * slack
        assert window.high <= rates[-1] * slack
        assert window.low / slack <= rates[best_index(scores)] <= window.high * slack
        assert find_window(rates, scores, tau / 2).decades >= window.decades - 1e-9


# --- grid luck


def test_the_default_search_is_zoologys_grid_with_every_rate_in_the_middle_of_its_slice():
    low, high = map(math.log10, SEARCH_RANGE)
    middles = [10 ** (low + (slot + 0.5) * (high - low) / 4) for slot in range(4)]
    assert middles == pytest.approx(ZOOLOGY_RATES)
    assert [rate_text(rate) for rate in ZOOLOGY_RATES] == ["1e-4", "4.64e-4", "2.15e-3", "1e-2"]


@pytest.mark.parametrize("points", [1, 3, 4, 10])
@pytest.mark.parametrize(
    "edges", [(1e-3, 2e-3), (1e-6, 1e-4), (8e-3, 1e-1), (1e-4, 1e-2), (1e-7, 1e-6)]
)
def test_grid_luck_is_the_frequency_of_hits(points, edges):
    draw = random.Random(points)
    low, high = map(math.log10, SEARCH_RANGE)
    width, trials, hits = (high - low) / points, 20_000, 0
    for _ in range(trials):
        offset = draw.random() * width
        hits += any(
            edges[0] <= 10 ** (low + slot * width + offset) <= edges[1] for slot in range(points)
        )
    luck = grid_luck(Window(0.9, *edges, False, False), points)
    assert hits / trials == pytest.approx(luck, abs=4.5 * 0.5 / math.sqrt(trials))


def test_grid_luck_by_hand():
    window = Window(0.9, 1e-3, 10**-2.5, False, False)
    assert grid_luck(window, 4, (1e-4, 1e0)) == pytest.approx(0.5)
    assert grid_luck(window, 100) == 1
    assert grid_luck(None) == 0


@pytest.mark.parametrize(
    ("points", "search"),
    [(0, (1e-4, 1e-2)), (4, (1e-2, 1e-4)), (4, (0.0, 1.0)), (4, (1.0, math.inf))],
)
def test_a_search_that_is_none_is_refused(points, search):
    with pytest.raises(
        SpecError, match=r"at least one point and 0 < lowest < highest;\nfor example points = 4"
    ):
        grid_luck(None, points, search)
