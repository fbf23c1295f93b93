"""Resampled seeds against SciPy's bootstrap and against what can be counted by hand."""

import itertools
import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from rows_made import make_row, make_sweep, only_cell

from recollect.analysis import group_cells, mean_score, seed_spread, windows_by_threshold
from recollect.analysis.seeds import percentile_interval, resample
from recollect.analysis.seeds.drawn_windows import find_windows
from recollect.analysis.seeds.resampling import RESAMPLES, draw_means, draw_windows, mean_draws

SWEEP = {1e-4: [0.0, 0.0, 0.4], 1e-3: [1.0, 0.9, 1.0], 1e-2: [1.0, 1.0, 0.3], 1e-1: [0.0] * 3}
scores = st.lists(st.floats(0, 1), min_size=1, max_size=40)


@given(scores, st.sampled_from([0.5, 0.8, 0.95]))
def test_the_interval_is_numpys_percentiles(values, coverage):
    tail = 100 * (1 - coverage) / 2
    wanted = np.percentile(values, [tail, 100 - tail])
    assert percentile_interval(values, coverage) == pytest.approx(tuple(wanted))


def test_the_interval_is_interpolated_and_of_plain_numbers():
    found = percentile_interval(range(0, 202, 2))
    assert found == pytest.approx((5.0, 195.0))
    assert percentile_interval(np.array([3.0, 1.0]), 0.5) == (1.5, 2.5)
    assert [type(end) for end in found] == [float, float]


def test_the_interval_of_a_mean_is_scipys():
    values = [0.2, 0.5, 0.55, 0.9, 0.95]
    rate = only_cell(make_sweep({1e-3: values})).rates[0]
    ours = percentile_interval(mean_draws(rate, np.random.RandomState(0), 20_000))
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=0
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.01)


def test_means_are_drawn_as_often_as_they_can_be():
    """Three seeds have 27 equally likely draws."""
    values = [0.0, 0.3, 1.0]
    rate = only_cell(make_sweep({1e-3: values})).rates[0]
    drawn = mean_draws(rate, np.random.RandomState(1), 27_000).tolist()
    # Rounded as every mean is: one that is 0.9 must not lie below 0.9.
    possible = [mean_score(draw) for draw in itertools.product(values, repeat=3)]
    assert set(drawn) == set(possible)
    for mean in set(possible):
        expected = possible.count(mean) / 27
        assert drawn.count(mean) / len(drawn) == pytest.approx(expected, abs=0.01)


def test_rates_are_drawn_independently_and_often_enough():
    cell = only_cell(make_sweep({1e-3: [0.0, 0.5, 1.0], 1e-2: [0.0, 0.5, 1.0]}))
    means = draw_means(cell)
    assert means.shape == (RESAMPLES, 2)
    assert abs(np.corrcoef(means.T)[0, 1]) < 0.03
    assert RESAMPLES >= 20_000


def test_the_draws_of_a_cell_are_the_same_everywhere():
    """Pinned, since a page written on another machine must have the same numbers."""
    means = draw_means(only_cell(make_sweep(SWEEP)))
    assert means[:5, 2].tolist() == [1.0, 0.766666666667, 1.0, 0.766666666667, 0.533333333333]
    assert (draw_means(only_cell(make_sweep(SWEEP)[::-1])) == means).all(), "whatever the order"


def test_cells_are_drawn_independently_of_each_other():
    first, second = group_cells(make_sweep(SWEEP) + make_sweep(SWEEP, width=128))
    means = draw_means(first), draw_means(second)
    assert abs(np.corrcoef(means[0][:, 1], means[1][:, 1])[0, 1]) < 0.03


def test_an_interval_rests_on_the_same_draws_at_every_tau_and_in_every_use():
    cell = only_cell(make_sweep(SWEEP))
    lrs, means = list(SWEEP), draw_means(cell)
    taus = (0.5, 0.8, 0.9)
    wanted = [percentile_interval(find_windows(lrs, means, tau).widths) for tau in taus]
    assert [seed_spread(cell, tau).interval for tau in taus] == wanted
    assert [found.interval for found in windows_by_threshold(cell, taus)] == wanted
    # A name is no part of it: pages shorten names.
    assert seed_spread(replace(cell, mixer="other"), 0.5).interval == wanted[0]


def test_too_few_seeds_give_no_draws():
    rows = make_sweep({1e-3: [1.0, 1.0, 1.0], 1e-2: [1.0, 1.0]})
    assert draw_means(only_cell(rows)) is None
    assert draw_windows(only_cell(rows), (0.9,)) is None
    assert draw_means(only_cell([make_row(score=None, status="todo")])) is None
    assert draw_means(only_cell(make_sweep(SWEEP)), resamples=0) is None


def test_numpy_is_loaded_only_to_draw():
    code = """
import sys
from rows_made import make_sweep, only_cell
from recollect.analysis import seed_spread, windows_by_threshold
import recollect.cli
few = only_cell(make_sweep({1e-3: [1.0, 1.0], 1e-2: [0.0, 0.0]}))
assert seed_spread(few).interval is windows_by_threshold(few)[0].interval is None
assert "numpy" not in sys.modules
seed_spread(only_cell(make_sweep({1e-3: [1.0] * 3})))
assert "numpy" in sys.modules
"""
    path = ":".join(sys.path)
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": path})


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
