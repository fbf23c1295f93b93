"""Training within a budget: on tiny real runs with a clock that the test moves, and its sizing on
made-up speeds.
"""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from recollect import api
from recollect.errors import Stopped
from recollect.running import spending
from recollect.running.events import Advanced, PackStarted, RunEnded
from recollect.running.planning import planner
from recollect.running.planning.forecast import guessed_s
from recollect.running.spending import SAFETY, Speeds, spend
from recollect.running.worker import Worker
from recollect.spec.run import RunSpec
from recollect.spec.sweep import Sweep
from recollect.store import Store

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
        of: Sequence[RunSpec] = runs, listen: Callable = lambda notice: None, **fields
    ) -> Worker:
        store = Store.create(tmp_path / "out")
        api.plan(store, Sweep("tiny", "", tuple(of)))
        return Worker(store, tmp_path / "out", torch.device("cpu"), listen, **fields)

    return make


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
        listen=lambda notice: (
            ended.append(notice.run.train.lr) if isinstance(notice, RunEnded) else None
        )
    )
    assert spend(worker, deadline=1e6) is True
    assert trained(worker) == {(lr, seed) for lr in RATES for seed in (1, 2)}
    assert set(ended[: len(COARSE)]) == COARSE  # the coarse grid came first
    whole = api.run(Sweep("tiny", "", runs), tmp_path / "whole", device="cpu")
    scores = {row.run_id: row.accuracy for row in worker.store.rows()}
    assert scores == {row.run_id: row.accuracy for row in whole.rows}
    assert worker.chosen is None
    assert worker.stop() == 0


def test_a_spent_budget_keeps_what_was_begun_and_the_next_call_goes_on(make_worker):
    clock = Clock()
    started: list[tuple[int, int]] = []

    def listen(notice) -> None:
        if isinstance(notice, PackStarted):
            started.append((len(notice.runs), notice.from_step))
        clock.now += isinstance(notice, Advanced)

    worker = make_worker(listen=listen)
    assert spend(worker, deadline=3.0, clock=clock) is False  # three steps of the first pack
    assert trained(worker) == set()
    begun = [row for row in worker.store.rows() if row.attempt > 0]
    assert {row.status for row in begun} == {"todo"}
    assert len(begun) == started[0][0] > 0
    clock.now = 0.0
    assert spend(worker, deadline=1e6, clock=clock) is True
    assert started[1] == (started[0][0], 3)  # from the checkpoint, with the same members


def test_no_time_is_nothing_trained(make_worker):
    worker = make_worker()
    assert spend(worker, deadline=0.0, clock=lambda: 1.0) is False
    assert all(row.attempt == 0 for row in worker.store.rows())


def test_a_signal_is_still_a_signal(make_worker):
    codes = itertools.chain([0, 0, 0], itertools.repeat(130))
    worker = make_worker(stop=lambda: next(codes))
    with pytest.raises(Stopped) as stopped:
        spend(worker, deadline=1e6)
    assert stopped.value.exit_code == 130
    assert worker.chosen is None


def test_a_worker_trains_what_is_chosen(make_worker, runs):
    worker = make_worker(chosen=frozenset([runs[3].run_id, runs[8].run_id]))
    worker.work()
    assert trained(worker) == {(run.train.lr, run.seed) for run in (runs[3], runs[8])}


# ---- sizing ----


@pytest.fixture
def speeds(make_worker, monkeypatch) -> Speeds:
    """A device on which a step of up to four members takes 1 s each, and measuring is counted."""
    worker = make_worker()
    monkeypatch.setattr(
        worker, "measure", lambda runs: (min(4, len(runs)), 1.0 * min(4, len(runs)))
    )
    monkeypatch.setattr(spending, "MEASURE_SHARE", 1e9)
    return Speeds(worker)


@pytest.mark.parametrize(
    ("left_s", "count"),
    [(1e9, 6), (6 * 4 * 1.0, 4), (6 * 4 * 1.0 - 1, 3), (6 * 2 * 1.0, 2), (6.5, 1), (5.0, 1)],
)
def test_as_many_runs_are_begun_as_should_end_in_time(speeds, runs, left_s, count):
    """Six steps a run, one second a step: packs of four, then a smaller one, at least one run."""
    same = runs[::2]
    assert spending._affordable(same, speeds, left_s) == same[:count]


def test_the_cheapest_shape_comes_first(speeds, make_run):
    small, large = make_run({"model.width": 8}), make_run({"model.width": 64})
    assert spending._affordable([large, small], speeds, 1e9) == (small,)


def test_what_takes_long_is_not_measured_but_trained_alone(make_worker, runs, monkeypatch):
    worker = make_worker()
    monkeypatch.setattr(worker, "measure", lambda runs: pytest.fail("measured"))
    speeds = Speeds(worker)
    left = 0.99 * spending.MEASURE_STEPS * speeds.estimate(runs[0]) / spending.MEASURE_SHARE
    assert speeds.together(runs, left) == worker.pack_size == 1


def test_speed_is_learnt_from_what_was_trained_and_scaled_to_other_shapes(
    make_worker, make_run, runs
):
    worker = make_worker()
    speeds = Speeds(worker)
    guess = speeds.estimate(runs[0])
    assert guess == pytest.approx(planner.cost(runs[0]).operations * guessed_s(torch.device("cpu")))
    spend(worker, deadline=1e6)
    rows = worker.store.rows()
    speeds.learn(rows, runs)
    assert speeds.estimate(runs[0]) in [pytest.approx(row.wall_s / row.steps) for row in rows]
    wide = make_run({"model.width": 32})
    ratio = planner.cost(wide).operations / planner.cost(runs[0]).operations
    assert speeds.estimate(wide) == pytest.approx(speeds.estimate(runs[0]) * ratio)
    other = make_run({"model.mixer.name": "mamba"})
    assert speeds.estimate(other) > 0
    assert SAFETY < 1
