"""Resampled seeds against SciPy's bootstrap and against what can be counted by hand."""

import itertools
import random
import statistics

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from rows_made import make_row, make_sweep, only_cell

from recollect.analysis.seeds import percentile_interval, resample
from recollect.analysis.seeds.resampling import mean_draws

scores = st.lists(st.floats(0, 1), min_size=1, max_size=40)


@given(scores, st.sampled_from([0.5, 0.8, 0.95]))
def test_the_interval_is_numpys_percentiles(values, coverage):
    tail = 100 * (1 - coverage) / 2
    wanted = np.percentile(values, [tail, 100 - tail])
    assert percentile_interval(values, coverage) == pytest.approx(tuple(wanted))


def test_the_interval_of_a_mean_is_scipys():
    values = [0.2, 0.5, 0.55, 0.9, 0.95]
    rate = only_cell(make_sweep({1e-3: values})).rates[0]
    ours = percentile_interval(mean_draws(rate, random.Random(0), 20_000))
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=0
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.01)


def test_means_are_drawn_as_often_as_they_can_be():
    """Three seeds have 27 equally likely draws."""
    values = [0.0, 0.3, 1.0]
    rate = only_cell(make_sweep({1e-3: values})).rates[0]
    drawn = mean_draws(rate, random.Random(1), 27_000)
    possible = [statistics.fmean(draw) for draw in itertools.product(values, repeat=3)]
    for mean in set(possible):
        expected = possible.count(mean) / 27
        found = sum(abs(value - mean) < 1e-9 for value in drawn) / len(drawn)
        assert found == pytest.approx(expected, abs=0.01)


def test_a_resampled_cell_keeps_its_rates_and_counts():
    rows = make_sweep({1e-3: [0.1, 0.2, 0.3], 1e-2: [0.7, 0.8, 0.9]})
    rows.append(make_row(lr=1e-1, seed=1, score=None, status="todo"))
    cell = only_cell(rows)
    drawn = [resample(cell, random.Random(seed)) for seed in range(20)]
    for other in drawn:
        assert [rate.lr for rate in other.rates] == [1e-3, 1e-2, 1e-1]
        assert [len(rate.scores) for rate in other.rates] == [3, 3, 0]
        assert set(other.rates[0].scores.values()) <= {0.1, 0.2, 0.3}
        assert list(other.rates[0].scores) == [-1, -2, -3]
        assert other.rows == cell.rows
        for rate in other.rates:
            assert [row.score for row in rate.scored] == list(rate.scores.values())
    assert len({other.rates[0].mean for other in drawn}) > 1
    # Rates are drawn independently: otherwise the second mean would follow from the first.
    assert len({round(other.rates[1].mean - other.rates[0].mean, 6) for other in drawn}) > 1
    assert resample(cell, random.Random(3)) == resample(cell, random.Random(3))
