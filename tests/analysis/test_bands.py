"""Bands against numbers worked out by hand and against scipy's distribution."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.analysis import BANDS, band, deviation
from recollect.analysis.bands import student
from recollect.errors import SpecError


def test_the_three_kinds():
    scores = [0.5, 0.6, 0.7]
    assert band(scores, "min-max") == (0.5, 0.7)
    assert band(scores, "std") == pytest.approx((0.5, 0.7))
    reach = 4.302653 * 0.1 / math.sqrt(3)  # Student's t with two degrees of freedom
    assert band(scores, "interval") == pytest.approx((0.6 - reach, 0.6 + reach), abs=1e-6)


def test_the_scores_of_a_rate_may_be_given_as_they_are():
    assert band({42: 0.2, 123: 0.4}) == (0.2, 0.4)


def test_a_band_ends_where_scores_end():
    assert band([1.0, 0.9, 0.5], "interval")[1] == 1.0
    assert band([0.0, 0.0, 0.3], "std")[0] == 0.0


@pytest.mark.parametrize("kind", BANDS)
def test_one_seed_shows_no_spread(kind):
    assert band([0.4], kind) == (0.4, 0.4)
    assert deviation([0.4]) == 0


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 30, 200, 1.7, 5.25])
def test_quantiles_are_students(freedom):
    stats = pytest.importorskip("scipy.stats")
    assert student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=2e-4)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.sampled_from(BANDS))
def test_a_band_holds_the_mean_and_lies_within_scores(scores, kind):
    low, high = band(scores, kind)
    mean = math.fsum(scores) / len(scores)
    assert 0 <= low <= mean + 1e-15
    assert mean - 1e-15 <= high <= 1


def test_bad_bands_are_refused():
    with pytest.raises(SpecError, match="band = 'sdt': did you mean std"):
        band([0.5], "sdt")
    with pytest.raises(SpecError, match="no scores; a band needs at least one finished run"):
        band([], "std")
