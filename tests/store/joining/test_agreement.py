"""When two results of one run agree: how they ended and their curves, not where or when."""

import math
from dataclasses import replace

import pytest
from rows_made import make_curve, make_row

from recollect.store.joining.agreement import has_same_result

ROW, CURVE = make_row(steps=200, wall_s=1.0, device="cpu"), make_curve([0.5, 0.9])


def test_where_when_and_how_fast_do_not_matter():
    other = replace(ROW, wall_s=9.0, device="NVIDIA H200", attempt=3, versions={"torch": "x"})
    assert has_same_result(ROW, CURVE, other, list(CURVE))


@pytest.mark.parametrize(
    "change",
    [
        {"status": "diverged", "diverged_step": 7},
        {"steps": 199},
        {"stopped_early": "solved"},
    ],
)
def test_another_end_is_another_result(change):
    assert not has_same_result(ROW, CURVE, replace(ROW, **change), CURVE)


@pytest.mark.parametrize("name", ["step", "train_loss", "test_loss", "accuracy", "exact"])
def test_one_number_of_the_curve_is_enough_to_differ(name):
    value = getattr(CURVE[0], name)
    changed = value + 1 if name == "step" else math.nextafter(value, 9.0)
    assert not has_same_result(ROW, CURVE, ROW, [replace(CURVE[0], **{name: changed}), CURVE[1]])
    assert not has_same_result(ROW, CURVE, ROW, CURVE[:1])


def test_nan_equals_nan():
    broken = [replace(point, train_loss=math.nan) for point in CURVE]
    assert has_same_result(ROW, broken, ROW, [replace(point) for point in broken])
    assert not has_same_result(ROW, broken, ROW, CURVE)


def test_the_score_on_training_rows_is_compared_where_both_have_it():
    with_score = [replace(point, train_score=0.5) for point in CURVE]
    assert has_same_result(ROW, CURVE, ROW, with_score)
    other = [replace(point, train_score=0.6) for point in CURVE]
    assert not has_same_result(ROW, other, ROW, with_score)
