"""Two sweeps, matched cell by cell, with differences that seed noise does or does not explain."""

import math

import pytest
from rows_made import make_row, make_sweep

from recollect.analysis import compare_sweeps, group_cells, mean_difference, seed_spread

PEAK = {1e-4: [0.0] * 3, 1e-3: [0.9, 1.0, 1.0], 1e-2: [0.0] * 3}


def only(comparison):
    (difference,) = comparison.both
    return difference


def test_cells_are_matched_by_their_settings():
    first = make_sweep({1e-3: [1.0]}, "mamba") + make_sweep({1e-3: [1.0]}, "hyena")
    second = make_sweep({1e-2: [0.5]}, "mamba") + make_sweep({1e-3: [1.0]}, "mamba", width=128)
    comparison = compare_sweeps(first, second)
    assert [entry.name for entry in comparison.both] == ["mamba"]
    assert [cell.name for cell in comparison.only_first] == ["hyena"]
    assert [cell.setting for cell in comparison.only_second] == ["width 128"]
    assert only(comparison).difference == -0.5


def test_what_the_sweeps_differ_in_can_be_left_out_of_the_match():
    first, second = make_sweep({1e-3: [0.2]}, norm="layer"), make_sweep({1e-3: [0.7]}, norm="rms")
    assert compare_sweeps(first, second).both == ()
    assert only(
        compare_sweeps(first, second, apart_from=["model.norm"])
    ).difference == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ([0.1, 0.2, 0.3], [0.8, 0.9, 0.85], "higher"),
        ([0.8, 0.9, 0.85], [0.1, 0.2, 0.3], "lower"),
        ([0.1, 0.9, 0.5], [0.6, 0.2, 0.9], "within seed noise"),
        ([0.5, 0.5], [0.5, 0.5], "within seed noise"),
        ([0.5], [1.0, 1.0], "unknown"),
    ],
)
def test_a_difference_must_exceed_the_noise_of_the_seeds(first, second, verdict):
    assert (
        only(compare_sweeps(make_sweep({1e-3: first}), make_sweep({1e-3: second}))).verdict
        == verdict
    )


def test_the_interval_is_welchs():
    stats = pytest.importorskip("scipy.stats")
    sides = [0.5, 0.61, 0.58, 0.7], [0.9, 0.4, 0.8]
    (left,), (right,) = (group_cells(make_sweep({1e-3: list(scores)})) for scores in sides)
    difference, interval = mean_difference(left.best, right.best)
    expected = stats.ttest_ind(sides[1], sides[0], equal_var=False).confidence_interval(0.95)
    assert difference == pytest.approx(0.7 - 0.5975)
    assert interval == pytest.approx((expected.low, expected.high), rel=1e-3)


def test_a_side_without_a_result_leaves_the_difference_open():
    entry = only(compare_sweeps([make_row(score=None, status="todo")], [make_row()]))
    assert (entry.difference, entry.interval, entry.verdict) == (None, None, "unknown")


# --- windows


def test_a_window_that_stays_has_not_moved():
    shift = only(compare_sweeps(make_sweep(PEAK), make_sweep(PEAK))).window
    assert (shift.low_by, shift.high_by, shift.moved) == (0, 0, False)


def test_a_window_a_decade_up_has_moved():
    shift = only(
        compare_sweeps(
            make_sweep(PEAK), make_sweep({10 * lr: scores for lr, scores in PEAK.items()})
        )
    ).window
    assert (shift.low_by, shift.high_by) == pytest.approx((1, 1))
    assert shift.moved is True


def test_two_seeds_cannot_tell_whether_it_moved():
    first, second = (
        make_sweep({1e-4: [0, 0], 1e-3: [1, 1]}),
        make_sweep({1e-4: [1, 1], 1e-3: [0, 0]}),
    )
    shift = only(compare_sweeps(first, second)).window
    assert shift.low_by == pytest.approx(-0.9)
    assert shift.moved is None


def test_the_end_of_a_grid_is_no_edge():
    """One grid stops at 1e-3 inside the window, the other goes on:
    nothing says that the upper edge moved.
    """
    short = make_sweep({1e-4: [0.0] * 3, 1e-3: [1.0] * 3})
    long = make_sweep({1e-4: [0.0] * 3, 1e-3: [1.0] * 3, 1e-2: [1.0] * 3, 1e-1: [0.0] * 3})
    assert only(compare_sweeps(short, long)).window.moved is False
    mirrored = (
        make_sweep({1e-3: [1.0] * 3, 1e-2: [0.0] * 3}),
        make_sweep({1e-5: [0.0] * 3, 1e-4: [1.0] * 3, 1e-3: [1.0] * 3, 1e-2: [0.0] * 3}),
    )
    assert only(compare_sweeps(*mirrored)).window.moved is False
    # But a window that ends below where the other is open has moved.
    higher = make_sweep({1e-2: [1.0] * 3, 1e-1: [1.0] * 3, 1e-4: [1.0] * 3, 1e-3: [0.0] * 3})
    assert only(compare_sweeps(short, higher)).window.moved is True


def test_a_window_that_vanished():
    gone = make_sweep({lr: [0.1] * 3 for lr in PEAK})
    shift = only(compare_sweeps(make_sweep(PEAK), gone)).window
    assert (shift.second, shift.low_by, shift.moved) == (None, None, True)
    # Where a third of the draws keeps a window, it is not gone.
    half = make_sweep({1e-4: [0.0] * 3, 1e-3: [1.0, 1.0, 0.6], 1e-2: [0.0] * 3})
    shift = only(compare_sweeps(make_sweep(PEAK), half)).window
    assert (shift.second, shift.moved) == (None, False)


# --- bootstrap of the edges


def test_edges_have_intervals_of_their_own():
    rows = make_sweep({1e-4: [0.0, 0.0, 0.4], 1e-3: [1.0] * 3, 1e-2: [0.0] * 3})
    (cell,) = group_cells(rows)
    spread = seed_spread(cell, 0.5)
    # All draws of the third seed alone put 1e-4 at .4: the lower edge lies where .4 -> 1 crosses
    # .5, at 5/6 of the decade.
    assert [math.log10(edge) for edge in spread.low_edge] == pytest.approx([-3 - 5 / 6, -3.5])
    assert [math.log10(edge) for edge in spread.high_edge] == pytest.approx([-2.5, -2.5])
    assert spread.solved_share == 1
    assert spread.interval == pytest.approx((1.0, 4 / 3))


def test_draws_without_a_window_have_no_edges():
    (cell,) = group_cells(make_sweep({1e-4: [0.0] * 3, 1e-3: [1.0, 0.0, 0.0], 1e-2: [0.0] * 3}))
    spread = seed_spread(cell, 0.9)
    assert spread.solved_share == pytest.approx(1 / 27, abs=0.02)
    assert spread.interval[0] == 0
    assert spread.low_edge[0] == spread.low_edge[1]
    (hopeless,) = group_cells(make_sweep({1e-3: [0.1] * 3}))
    assert seed_spread(hopeless).low_edge is None
