"""Steps to solve, plateau levels by hand, and curves with and without bumps."""

import itertools
import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_made import make_curve, make_sweep, only_cell

from recollect.analysis import (
    bumps,
    plateaus,
    solve_step,
    steps_to_solve,
    thin,
)
from recollect.analysis.curves import _noise, _stretches
from recollect.errors import SpecError
from recollect.rows import Evaluation


def curve_of(losses, scores=None, every=100):
    scores = scores or [0.0] * len(losses)
    return [
        Evaluation((i + 1) * every, loss, loss, score, 0.0)
        for i, (loss, score) in enumerate(zip(losses, scores, strict=True))
    ]


def fall(steps, middle, width, high, low):
    """A smooth step from `high` to `low`."""
    return [low + (high - low) / (1 + math.exp((i - middle) / width)) for i in range(steps)]


def test_levels_of_pairs():
    zoology = plateaus({"name": "mqar", "length": 256, "pairs": 16, "vocabulary_split": "halves"})
    assert zoology == pytest.approx({"ln V": 9.0109, "ln V/2": 8.3178, "ln K": 2.7726}, abs=1e-4)
    shared = plateaus({"name": "recall", "length": 64, "pairs": 4, "vocabulary": 100})
    assert shared == pytest.approx(
        {"ln V": math.log(100), "ln 2K": math.log(8), "ln K": math.log(4)}
    )


def test_levels_of_strings():
    levels = plateaus(
        {
            "name": "copying",
            "alphabet": 3,
            "min_length": 2,
            "max_length": 4,
            "context": 30,
            "eval_lengths": [3, 4],
        }
    )
    assert list(levels) == ["ln V", "ln A", "bag of letters"]
    assert levels["ln V"] == pytest.approx(math.log(7))
    assert levels["ln A"] == pytest.approx(math.log(3))
    # Every string of three and of four letters, each with the entropy of its letters.
    means = []
    for letters in (3, 4):
        strings = list(itertools.product("abc", repeat=letters))
        shares = [[count / letters for count in Counter(string).values()] for string in strings]
        means.append(
            sum(-share * math.log(share) for own in shares for share in own) / len(strings)
        )
    assert levels["bag of letters"] == pytest.approx(sum(means) / 2)


@pytest.mark.parametrize(
    "task",
    [{}, {"name": "a plugin's"}, {"name": "mqar", "pairs": "many"}, {"name": "mqar", "unknown": 1}],
)
def test_a_task_that_cannot_be_read_has_no_levels(task):
    assert plateaus(task) == {}


def test_a_staircase_has_two_bumps_and_only_the_second_gains():
    losses = [
        a + b for a, b in zip(fall(60, 15, 0.7, 7.6, 0), fall(60, 40, 0.7, 1.4, 0), strict=True)
    ]
    scores = [0.0 if i < 15 else 0.27 if i < 40 else 1.0 for i in range(60)]
    first, second = bumps(curve_of(losses, scores), "accuracy", chance=0.25)
    assert first.start_step < 1600 < first.end_step
    assert second.start_step < 4100 < second.end_step
    assert (first.loss_before, first.loss_after) == pytest.approx((9, 1.4), abs=0.3)
    assert (second.loss_before, second.loss_after) == pytest.approx((1.4, 0), abs=0.3)
    assert (first.gained, second.gained) == (False, True)
    # Without the chance level the climb up to it looks like a gain.
    assert bumps(curve_of(losses, scores), "accuracy")[0].gained


def test_a_bump_is_judged_by_the_tasks_own_score():
    losses = fall(40, 20, 0.7, 3, 0)
    curve = [
        Evaluation(i, loss, loss, 1.0 if i > 20 else 0.0, 0.0) for i, loss in enumerate(losses)
    ]
    assert [bump.gained for bump in bumps(curve, "accuracy")] == [True]
    assert [bump.gained for bump in bumps(curve, "exact")] == [False]


@pytest.mark.parametrize(
    "losses",
    [
        [
            9 * math.exp(-i / 5) for i in range(60)
        ],  # fast from the beginning, then slower and slower
        [9 * math.exp(-i / 30) for i in range(60)],
        [9 - 9 * i / 59 for i in range(60)],
        [4.5 + 4.5 * math.cos(math.pi * i / 59) for i in range(60)],  # as slow as the schedule
        [9.01 - 0.002 * i for i in range(60)],  # learns nothing
        [9.0] * 60,
        [9.0 if i != 30 else 1.0 for i in range(60)],  # one outlier
        [9.0, 1.0, 1.0, 1.0],  # too short to tell
    ],
)
def test_smooth_flat_and_short_curves_have_none(losses):
    assert bumps(curve_of(losses), "accuracy") == []


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_noise_makes_no_bumps_and_hides_none(seed, noise):
    draw = random.Random(seed)

    def shaken(losses):
        return curve_of([loss + draw.gauss(0, noise) for loss in losses])

    assert bumps(shaken([1.4] * 100), "accuracy") == []
    assert bumps(shaken([9 * math.exp(-i / 20) for i in range(100)]), "accuracy") == []
    (found,) = bumps(shaken(fall(100, 50, 1, 9, 2.8)), "accuracy")
    assert (found.loss_before, found.loss_after) == pytest.approx((9, 2.8), abs=0.8)


def test_a_smooth_fall_that_noise_halts_for_a_moment_is_no_bump():
    """A fall from the first evaluation on seems calm before wherever noise holds it up;
    that is allowed for.
    """
    false = 0
    for seed in range(150):
        draw = random.Random(seed)
        false += bool(
            bumps(
                curve_of([9 * math.exp(-i / 20) + draw.gauss(0, 0.2) for i in range(100)]),
                "accuracy",
            )
        )
    assert false <= 6  # 3 of 150; many more without the allowance


def test_a_stretch_may_hold_single_slow_intervals_and_has_one_direction():
    slopes = [0, -5, -1, -6, 0, 0, -7, 8, 4, 0, 4]
    assert _stretches(slopes, 4) == [(1, 4), (6, 7), (7, 11)]
    assert _stretches(slopes, 5) == [(1, 4), (6, 7), (7, 8)]
    assert _stretches(slopes, 9) == []


@pytest.mark.parametrize("deviation", [0.01, 3.0])
def test_the_noise_of_independent_draws_is_their_standard_deviation(deviation):
    draw = random.Random(0)
    values = [0.001 * i + draw.gauss(0, deviation) for i in range(4000)]
    assert _noise(values) == pytest.approx(deviation, rel=0.05)


@pytest.mark.parametrize("before", [8, 2])  # 2: fewer evaluations before it than it takes
def test_twenty_evaluations_are_enough(before):
    losses = [8.3] * before + [6.0, 2.9] + [2.8] * (18 - before)
    (found,) = bumps(curve_of(losses), "accuracy")
    assert (found.start_step, found.end_step) == (100 * before, 100 * before + 200)


@pytest.mark.parametrize("after", [5, 4])
def test_a_sudden_change_takes_a_fifth_of_the_time_at_most(after):
    curve = curve_of([8.0] * 4 + [5.5, 3.0] + [3.0] * after)  # two of ten intervals, or of nine
    assert [(bump.start_step, bump.end_step) for bump in bumps(curve, "accuracy")] == (
        [(400, 600)] if after == 5 else []
    )


@pytest.mark.parametrize(("fall", "count"), [(0.24, 0), (0.26, 1)])
def test_a_change_has_a_quarter_of_a_nat_at_least(fall, count):
    losses = [1.4] * 8 + [1.4 - fall / 2, 1.4 - fall] + [1.4 - fall] * 10
    assert len(bumps(curve_of(losses), "accuracy")) == count


def test_a_sudden_rise_is_a_bump_too():
    (found,) = bumps(curve_of([0.1] * 20 + [2.0, 4.0, 4.0] + [4.0] * 20), "accuracy")
    assert (found.loss_before, found.loss_after) == (0.1, 4.0)


def test_losses_that_are_no_number_are_left_out():
    curve = curve_of([8.3] * 10 + [6.0, 2.9] + [2.8] * 10)
    broken = [*curve, Evaluation(9999, math.nan, math.inf, 0, 0)]
    assert bumps(broken, "accuracy") == bumps(curve, "accuracy") != []


def test_the_training_loss_can_be_asked_about():
    flat = [Evaluation(i, loss, 1.0, 0, 0) for i, loss in enumerate(fall(40, 20, 0.7, 3, 0))]
    assert bumps(flat, "accuracy") == []
    assert len(bumps(flat, "accuracy", loss="train")) == 1
    with pytest.raises(SpecError, match="loss = 'both': must be test or train"):
        bumps(flat, "accuracy", loss="both")


@given(st.lists(st.floats(0, 1e6), max_size=40))
def test_bumps_of_anything_are_in_order_and_inside_the_curve(losses):
    curve = curve_of(losses)
    found = bumps(curve, "accuracy")
    steps = [step for bump in found for step in (bump.start_step, bump.end_step)]
    assert all(a < b for a, b in zip(steps[::2], steps[1::2], strict=True))
    assert steps[::2] == sorted(steps[::2])
    assert set(steps) <= {point.step for point in curve}


def test_steps_to_solve():
    rows = make_sweep({1e-3: [1.0, 1.0, 0.2]})
    curves = dict(
        zip(
            [row.run_id for row in rows],
            map(make_curve, ([0.1, 0.9, 1], [0.1, 0.2, 0.95], [0.1, 0.2, 0.2])),
            strict=True,
        )
    )
    assert [solve_step(curves[row.run_id], "accuracy") for row in rows] == [200, 300, None]
    assert solve_step(make_curve([0.95]), "exact") is None
    rate = only_cell(rows).rates[0]
    assert steps_to_solve(rate, curves) == 300
    assert steps_to_solve(rate, {}) is None


@given(st.integers(0, 200), st.integers(2, 50))
def test_a_thinned_curve_keeps_its_ends_and_order(length, limit):
    curve = make_curve([0.5] * length)
    short = thin(curve, limit)
    assert len(short) == min(length, limit)
    assert [p.step for p in short] == sorted({p.step for p in short})
    assert not curve or (short[0], short[-1]) == (curve[0], curve[-1])
