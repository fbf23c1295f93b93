"""Percentiles against NumPy's, and resampled cells against what can be counted by hand."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_made import make_row, make_sweep, only_cell

from recollect.analysis.seeds import percentile_interval, resample

scores = st.lists(st.floats(0, 1), min_size=1, max_size=40)


@given(scores, st.sampled_from([0.5, 0.8, 0.95]))
def test_the_interval_is_numpys_percentiles(values, coverage):
    tail = 100 * (1 - coverage) / 2
    wanted = np.percentile(values, [tail, 100 - tail])
    assert percentile_interval(values, coverage) == pytest.approx(tuple(wanted))


def test_the_interval_is_interpolated_and_of_plain_numbers():
    found = percentile_interval(range(0, 202, 2), 0.95)
    assert found == pytest.approx((5.0, 195.0))
    assert percentile_interval(np.array([3.0, 1.0]), 0.5) == (1.5, 2.5)
    assert [type(end) for end in found] == [float, float]


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
