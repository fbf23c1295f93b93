"""Training within a budget: on tiny real runs with a clock that the test moves,
and its sizing on made-up speeds.
"""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from recollect import api
from recollect.errors import Stopped
from recollect.running import engine, spending
from recollect.running.budget import Budget
from recollect.running.events import Advanced, PackStarted, RunEnded, ignore
from recollect.running.pack_queue import Selection
from recollect.running.planning.cost import evaluation_stretch
from recollect.running.planning.priority import next_stage
from recollect.running.planning.speed import SpeedModel, guessed_s
from recollect.running.signals import never
from recollect.running.spending import SAFETY, learn_speeds, select_affordable, spend
from recollect.running.worker import Worker
from recollect.spec.run import RunSpec
from recollect.spec.sweep import Sweep
from recollect.store import Store

CPU = torch.device("cpu")
RATES = (1e-4, 3e-4, 4.642e-4, 1e-3, 2.154e-3, 1e-2)
COARSE = {1e-4, 4.642e-4, 2.154e-3, 1e-2}


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def runs(make_run) -> tuple[RunSpec, ...]:
    return tuple(make_run({"train.lr": lr, "seed": seed}) for lr in RATES for seed in (1, 2))


@pytest.fixture
def make_worker(tmp_path: Path, runs):
    def make(
        of: Sequence[RunSpec] = runs, listen: Callable = ignore, stop: Callable = never
    ) -> Worker:
        store = Store.create(tmp_path / "out")
        engine.plan(store, Sweep("tiny", "", tuple(of)))
        return Worker(store, tmp_path / "out", CPU, listen, stop)

    return make


def budget_until(deadline: float, clock: Callable[[], float] | None = None) -> Budget:
    return Budget(1.0, deadline, clock or Clock())


def trained(worker: Worker) -> set[tuple[float, int]]:
    return {
        (row.spec["train"]["lr"], row.spec["seed"])
        for row in worker.store.rows()
        if row.status == "done"
    }


# ---- the whole ----


def test_a_large_budget_trains_everything_and_gives_the_same_numbers(make_worker, runs, tmp_path):
    ended: list[float] = []
    worker = make_worker(
        listen=lambda event: (
            ended.append(event.run.train.lr) if isinstance(event, RunEnded) else None
        )
    )
    assert spend(worker, budget_until(1e6), next_stage) is True
    assert trained(worker) == {(lr, seed) for lr in RATES for seed in (1, 2)}
    assert set(ended[: len(COARSE)]) == COARSE  # the coarse grid came first
    whole = api.run(Sweep("tiny", "", runs), tmp_path / "whole", device="cpu")
    scores = {row.run_id: row.accuracy for row in worker.store.rows()}
    assert scores == {row.run_id: row.accuracy for row in whole.rows}


def test_a_spent_budget_keeps_what_was_begun_and_the_next_call_goes_on(make_worker):
    clock = Clock()
    started: list[tuple[int, int]] = []

    def listen(event) -> None:
        if isinstance(event, PackStarted):
            started.append((len(event.runs), event.from_step))
        clock.now += isinstance(event, Advanced)

    short = budget_until(3.0, clock)
    worker = make_worker(listen=listen, stop=short.stop(never))
    assert spend(worker, short, next_stage) is False  # three steps of the first pack
    assert trained(worker) == set()
    begun = [row for row in worker.store.rows() if row.attempt > 0]
    assert {row.status for row in begun} == {"todo"}
    assert len(begun) == started[0][0] > 0
    clock.now = 0.0
    assert spend(make_worker(listen=listen), budget_until(1e6, clock), next_stage) is True
    assert started[1] == (started[0][0], 3)  # from the checkpoint, with the same members


def test_no_time_is_nothing_trained(make_worker):
    worker = make_worker()
    assert spend(worker, budget_until(0.0, lambda: 1.0), next_stage) is False
    assert all(row.attempt == 0 for row in worker.store.rows())


def test_a_signal_is_still_a_signal(make_worker):
    codes = itertools.chain([0, 0, 0], itertools.repeat(130))
    budget = budget_until(1e6)
    worker = make_worker(stop=budget.stop(lambda: next(codes)))
    with pytest.raises(Stopped) as stopped:
        spend(worker, budget, next_stage)
    assert stopped.value.exit_code == 130


def test_a_worker_trains_what_is_selected(make_worker, runs):
    worker = make_worker()
    worker.work(Selection(frozenset([runs[3].run_id, runs[8].run_id])))
    assert trained(worker) == {(run.train.lr, run.seed) for run in (runs[3], runs[8])}
    worker.work()  # a selection is for one call
    assert len(trained(worker)) == len(runs)


# ---- sizing ----


class MadeUpShapes:
    """A device on which a step of up to four members takes 1 s each."""

    def measure(self, runs: Sequence[RunSpec]) -> tuple[int, float]:
        return min(4, len(runs)), 1.0 * min(4, len(runs))


class UnmeasuredShapes:
    def measure(self, runs: Sequence[RunSpec]) -> tuple[int, float]:
        return pytest.fail("measured")


@pytest.fixture
def speeds(monkeypatch) -> SpeedModel:
    """Measuring is never too long."""
    monkeypatch.setattr(spending, "MEASURE_SHARE", 1e9)
    return SpeedModel(guessed_s(CPU))


@pytest.mark.parametrize(
    ("left_s", "count"),
    [(1e9, 6), (6 * 4 * 1.0, 4), (6 * 4 * 1.0 - 1, 3), (6 * 2 * 1.0, 2), (6.5, 1)],
)
def test_as_many_runs_are_begun_as_should_end_in_time(speeds, runs, left_s, count):
    """Six steps a run, one second a step, and its evaluations: packs of four, then the rest."""
    same = runs[::2]
    left_s *= evaluation_stretch(same[0])
    selection = select_affordable(same, MadeUpShapes(), speeds, left_s)
    assert selection == Selection(frozenset(run.run_id for run in same[:count]))


class KnownShapes(UnmeasuredShapes):
    """A device on which packs of this shape have trained: eight members at a time."""

    def pack_size(self, runs: Sequence[RunSpec]) -> int:
        return 8


@pytest.mark.parametrize(
    ("of", "ending", "count"), [(12, 7, 7), (12, 9, 8), (12, 15, 8), (12, 16, 12), (5, 9, 5)]
)
def test_of_a_shape_whose_speed_is_known_whole_packs_are_begun(speeds, runs, of, ending, count):
    """Where a pack should not end in time, the runs that should; packs of four would be others."""
    same = runs[:of]
    speeds.learn(same[0], 100, 100.0)
    left_s = (ending + 0.5) * same[0].train.steps * 1.0
    selection = select_affordable(same, KnownShapes(), speeds, left_s)
    assert selection == Selection(frozenset(run.run_id for run in same[:count]))


def test_a_measured_pack_is_shared_by_its_members(speeds, runs):
    select_affordable(runs, MadeUpShapes(), speeds, 1e9)
    assert speeds.seconds(runs[0]) == pytest.approx(evaluation_stretch(runs[0]) * 1.0)


def test_the_cheapest_shape_comes_first(speeds, make_run):
    small, large = make_run({"model.width": 8}), make_run({"model.width": 64})
    selection = select_affordable([large, small], MadeUpShapes(), speeds, 1e9)
    assert selection.run_ids == {small.run_id}


@pytest.mark.parametrize(("wanted", "chosen"), [(1, 2), (2, 2), (3, 4), (4, 4), (5, 6), (9, 6)])
def test_more_shapes_follow_until_there_are_as_many_runs_as_wanted(
    speeds, make_runs, wanted, chosen
):
    runs = make_runs(2, 2, 2)
    selection = select_affordable(runs, MadeUpShapes(), speeds, 1e9, wanted)
    assert selection == Selection(frozenset(run.run_id for run in runs[:chosen]))


@pytest.mark.parametrize(("steps", "chosen"), [(11, 1), (12, 2), (17, 2), (18, 3), (24, 4)])
def test_shapes_that_follow_have_the_time_that_is_left(speeds, make_runs, steps, chosen):
    """Six steps a run, one second a step; what follows may be left out altogether."""
    runs = make_runs(2, 2)
    left_s = (steps + 0.5) * evaluation_stretch(runs[0])
    selection = select_affordable(runs, MadeUpShapes(), speeds, left_s, 9)
    assert selection == Selection(frozenset(run.run_id for run in runs[:chosen]))


def test_shapes_of_an_earlier_sweep_come_first_however_dear(speeds, make_run):
    small, large = make_run({"model.width": 8}), make_run({"model.width": 64})
    ranks = {small.run_id: 1, large.run_id: 0}
    selection = select_affordable([small, large], MadeUpShapes(), speeds, 1e9, 1, ranks)
    assert selection.run_ids == {large.run_id}


def test_a_shape_has_the_place_of_its_first_run_in_order(speeds, make_run):
    """Whatever run of it comes first in the stage."""
    small, large = make_run({"model.width": 8}), make_run({"model.width": 64})
    other = make_run({"model.width": 64, "seed": 5})
    ranks = {small.run_id: 1, large.run_id: 2, other.run_id: 0}
    selection = select_affordable([small, large, other], MadeUpShapes(), speeds, 1e9, 1, ranks)
    assert selection.run_ids == {large.run_id, other.run_id}


@pytest.mark.parametrize("rank", [0, 2])
def test_a_shape_that_should_not_end_in_time_leaves_it_to_one_that_should(speeds, make_run, rank):
    """Of six and of forty steps, a second each, where there is time for seven."""
    short, long = make_run({"model.width": 8}), make_run({"model.width": 64, "train.steps": 40})
    ranks, left_s = {short.run_id: 1, long.run_id: rank}, 7.0 * evaluation_stretch(short)
    selection = select_affordable([long, short], MadeUpShapes(), speeds, left_s, 9, ranks)
    assert selection == Selection(frozenset([short.run_id]))


def test_if_nothing_should_end_in_time_one_run_begins_anyway(speeds, runs):
    selection = select_affordable(runs, MadeUpShapes(), speeds, 5.0, 9)
    assert selection == Selection(frozenset([runs[0].run_id]), pack_size=1)


def test_what_takes_long_is_not_measured_but_trained_alone(runs):
    speeds = SpeedModel(guessed_s(CPU))
    left_s = 0.99 * spending.MEASURE_STEPS * speeds.seconds(runs[0]) / spending.MEASURE_SHARE
    assert select_affordable(runs, UnmeasuredShapes(), speeds, left_s).pack_size == 1


def test_speed_is_learnt_from_what_was_trained(make_worker, runs):
    worker, speeds = make_worker(), SpeedModel(guessed_s(CPU))
    spend(worker, budget_until(1e6), next_stage)
    rows = worker.store.rows()
    learn_speeds(speeds, rows, runs)
    mean = sum(row.wall_s for row in rows) / sum(row.steps for row in rows)
    assert speeds.seconds(runs[0]) == pytest.approx(mean)
    assert SAFETY < 1
