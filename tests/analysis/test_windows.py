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
from recollect.analysis.windows import AS_GOOD, best_index
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


def test_a_single_rate_that_scores_a_little_more_is_not_the_window():
    """Attention at (256,16): the mean of a lucky draw of seeds at the last rate is 1.0000."""
    window = find_window(DECADES, [0.0, 0.9999, 0.9999, 0.0, 1.0], tau=0.9)
    assert 1e-5 < window.low < 1e-4
    assert 1e-3 < window.high < 1e-2
    # With a clear lead it is: a wide range of lesser scores is another result.
    ahead = find_window(DECADES, [0.0, 0.9, 0.98, 0.0, 1.0], tau=0.9)
    assert ahead.open_high
    assert ahead.low > 1e-2


@pytest.mark.parametrize(("score", "is_as_good"), [(0.96, True), (0.9599, False)])
def test_as_good_is_a_hundredth(score, is_as_good):
    window = find_window(DECADES, [score, score, 0.0, 0.97, 0.0], tau=0.9)
    assert window.open_low is is_as_good
    assert AS_GOOD == 0.01


@pytest.mark.parametrize("best", [0.07, 0.1, 0.13, 0.95, 1.0])
def test_a_hundredth_is_not_missed_by_a_rounding_error(best):
    """0.1 - 0.01 is above 0.09."""
    good = round(best - AS_GOOD, 2)
    assert find_window(DECADES, [good, good, 0.0, best, 0.0], tau=good).open_low


def islands(*humps):
    """Ranges of rates with one unsolved rate between them, on a grid of 0.3 decades: as rates, and
    scores. Equal humps give widths that differ by rounding errors.
    """
    scores = [0.0]
    for hump in humps:
        scores += [*hump, 0.0]
    return [10 ** (-4.1 + 0.3 * step) for step in range(len(scores))], scores


@pytest.mark.parametrize(
    ("tops", "chosen"),
    [
        ((0.995, 1.0, 0.995), 1),  # the best score
        ((0.995, 0.995, 1.0), 2),
        ((1.0, 1.0, 1.0), 1),  # the middle
        ((1.0, 1.0, 0.995), 0),  # of an even number the lower one, as of equal scores
        ((0.98, 1.0, 0.98, 0.98, 1.0, 1.0), 4),
    ],
)
def test_of_equally_wide_ranges_the_best_then_the_middle_is_the_window(tops, chosen):
    rates, scores = islands(*[(0.95, top, 0.95) for top in tops])
    window = find_window(rates, scores, tau=0.9)
    assert window.low < rates[2 + 4 * chosen] < window.high


def test_of_ranges_as_good_as_the_best_the_widest_is_the_window():
    rates, scores = islands(
        (0.95, 1.0, 0.95), (0.951, 0.995, 0.95), (0.95, 0.989, 0.99, 0.98, 0.95)
    )
    window = find_window(rates, scores, tau=0.9)
    assert window.low < rates[9]
    assert window.high > rates[13]
    rates, scores = islands((0.95, 1.0, 0.95), (0.951, 0.995, 0.95), (0.95, 0.985, 0.985, 0.95))
    window = find_window(rates, scores, tau=0.9)
    assert window.low < rates[5] < rates[7] < window.high, "wider by a little"


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
def test_a_window_lies_in_the_grid_holds_a_rate_as_good_as_the_best_and_shrinks_with_tau(
    points, tau
):
    points = sorted((10**x, y) for x, y in points)
    rates, scores = [x for x, _ in points], [y for _, y in points]
    window = find_window(rates, scores, tau)
    assert (window is None) == (max(scores) < tau)
    if window:
        slack = 1 + 1e-9
        assert rates[0] <= window.low * slack
        assert window.high <= rates[-1] * slack
        held = [
            score
            for rate, score in points
            if score >= tau and window.low / slack <= rate <= window.high * slack
        ]
        assert max(held) >= max(scores) - AS_GOOD - 1e-9
        for lower in (0.99 * tau, tau - AS_GOOD / 2, tau / 2):
            assert find_window(rates, scores, lower).decades >= window.decades - 1e-9


@given(
    st.lists(st.sampled_from([0.0, 0.5, 0.9, 0.985, 0.99, 0.995, 1.0]), min_size=1, max_size=9),
    st.tuples(*[st.sampled_from([0.4, 0.5, 0.9, 0.95, 0.985, 0.99, 0.995, 1.0])] * 2),
)
def test_a_lower_tau_never_narrows_a_window_that_has_rivals(scores, taus):
    """Islands of almost equal scores, among which an exact best one would jump."""
    rates = [10 ** (-5 + step / 2) for step in range(len(scores))]
    wide, narrow = (find_window(rates, scores, tau) for tau in sorted(taus))
    if narrow:
        assert wide.decades >= narrow.decades - 1e-9


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
