"""The model of speed: each shape at its own, by what is known of it or of those like it."""

import itertools

import pytest
import torch

from recollect.running.planning.cost import cost, evaluation_stretch
from recollect.running.planning.speed import (
    MOST_TIMED,
    SpeedModel,
    guessed_s,
    seconds_per_step,
)
from recollect.tasks.build import build_task

CPU = torch.device("cpu")


@pytest.fixture
def runs(make_run):
    """Two shapes of a mixer, and one of another."""
    return (
        make_run(),
        make_run({"model.width": 32}),
        make_run({"model.mixer.name": "mamba"}),
    )


def ratio(one, other) -> float:
    return cost(one).operations / cost(other).operations


def test_nothing_is_said_before_anything_is_known(runs):
    model = SpeedModel()
    assert model.seconds(runs[0]) is None
    assert model.nearest(runs[0]) is None


def test_a_guess_is_by_operations(runs):
    model = SpeedModel(guessed_s(CPU))
    work = cost(runs[0]).operations * evaluation_stretch(runs[0])
    assert model.seconds(runs[0]) == pytest.approx(work * guessed_s(CPU))


def test_a_shape_is_scaled_by_its_evaluations_too(make_run):
    often, seldom = (make_run({"train.evaluations": count}) for count in (6, 1))
    assert often.shape_id != seldom.shape_id
    model = SpeedModel()
    model.measure(seldom, 0.5)
    longer = evaluation_stretch(often) / evaluation_stretch(seldom)
    assert longer > 1.5
    assert model.seconds(often) == pytest.approx(0.5 * longer)


def test_what_was_trained_counts_by_its_steps(runs):
    model = SpeedModel(guessed_s(CPU))
    model.learn(runs[0], 10, 1.0)
    model.learn(runs[0], 30, 5.0)
    assert model.seconds(runs[0]) == pytest.approx(6.0 / 40)


def test_the_latest_of_measured_and_learnt_counts(runs):
    model = SpeedModel()
    model.measure(runs[0], 0.5)
    assert model.seconds(runs[0]) == 0.5
    model.learn(runs[0], 10, 1.0)
    assert model.seconds(runs[0]) == pytest.approx(0.1)
    model.measure(runs[0], 0.25)
    assert model.seconds(runs[0]) == 0.25


def test_an_unknown_shape_is_scaled_from_its_own_mixer(runs):
    small, wide, other = runs
    model = SpeedModel(guessed_s(CPU))
    model.measure(other, 100.0)
    model.measure(small, 0.5)
    assert model.nearest(wide) is small
    assert model.seconds(wide) == pytest.approx(0.5 * ratio(wide, small))


def test_an_unknown_mixer_is_scaled_from_all_others(runs):
    small, wide, other = runs
    model = SpeedModel()
    model.learn(small, 10, 1.0)
    model.learn(wide, 20, 6.0)
    made = 10 * cost(small).operations + 20 * cost(wide).operations
    assert model.seconds(other) == pytest.approx(7.0 * cost(other).operations / made)


def test_what_was_measured_is_as_much_slower_as_training_was(runs):
    small, wide, other = runs
    model = SpeedModel()
    model.measure(small, 0.5)
    model.measure(other, 2.0)
    model.learn(small, 10, 15.0)  # three times as long as measured
    assert model.seconds(other) == pytest.approx(6.0)
    model.learn(wide, 10, 1000.0)  # of which nothing was measured
    assert model.seconds(other) == pytest.approx(6.0)


def test_where_operations_are_unknown_run_steps_count_alike(runs):
    small, wide, other = runs
    model = SpeedModel(count=lambda run: None)
    model.learn(small, 10, 1.0)
    model.learn(other, 30, 7.0)
    assert model.seconds(wide) == pytest.approx(8.0 / 40)


def test_a_step_is_timed_also_for_the_shortest_run(make_run):
    run = make_run({"train.steps": 1, "train.evaluations": 1})
    task = build_task(run.task, 0, run.train.batch, CPU)
    assert 0 < seconds_per_step([run], task, CPU) < 10


def test_the_fastest_of_several_steps_counts(make_run):
    """By a clock of which every second reading is late by less and less: 5, 3, 1 for a step."""
    run = make_run()
    task = build_task(run.task, 0, run.train.batch, CPU)
    now, late = [0.0], iter([5.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    readings = itertools.count()

    def clock() -> float:
        now[0] += next(late) if next(readings) % 2 else 0.0
        return now[0]

    assert seconds_per_step([run], task, CPU, clock) == 3.0  # two were long enough
    late = iter([0.01, 0.005, *([0.01] * (MOST_TIMED - 2))])
    assert seconds_per_step([run], task, CPU, clock) == pytest.approx(0.005)
    assert next(late, None) is None  # as many as may be, while they are quick


def test_with_patience_a_fast_step_is_waited_for(make_run, monkeypatch):
    """Where nobody else computes it comes at once; a day has a tick for every look at it."""
    run = make_run()
    task = build_task(run.task, 0, run.train.batch, CPU)
    now, steps = [0.0], iter([*([7.0] * 9), 2.0, *([7.0] * 9)])
    readings, day = itertools.count(), itertools.count()

    def clock() -> float:
        now[0] += next(steps) if next(readings) % 2 else 0.0
        return now[0]

    monkeypatch.setattr("recollect.running.planning.speed.time.monotonic", lambda: next(day))
    assert seconds_per_step([run], task, CPU, clock) == 7.0
    assert seconds_per_step([run], task, CPU, clock, patience_s=10) == 2.0
