"""Runs of several shapes, and a worker for them."""

from collections.abc import Callable

import pytest
from workers_made import Trainer

from recollect.running import pack
from recollect.spec.run import RunSpec
from recollect.training.early import EarlyDecisions
from recollect.training.population import Population


@pytest.fixture
def make_runs(make_run):
    """So many runs of each shape."""

    def make(*sizes: int) -> list[RunSpec]:
        return [
            make_run({"seed": seed, "model.width": 8 * (shape + 1)})
            for shape, size in enumerate(sizes)
            for seed in range(size)
        ]

    return make


@pytest.fixture
def work(tmp_path, monkeypatch) -> Trainer:
    trainer = Trainer(tmp_path)

    def decide(self, run, evaluation):
        return "solved" if evaluation.step >= trainer.steps(run.seed) else None

    monkeypatch.setattr(EarlyDecisions, "decide", decide)
    return trainer


@pytest.fixture
def clock_by_steps(monkeypatch) -> Callable[[Callable[[Population], float]], list[float]]:
    """Packs then read a clock that each step of a population moves by so many seconds."""

    def start(seconds: Callable[[Population], float]) -> list[float]:
        now, step = [0.0], Population.train_step

        def timed(self, batch):
            step(self, batch)
            now[0] += seconds(self)

        monkeypatch.setattr(pack.time, "monotonic", lambda: now[0])
        monkeypatch.setattr(Population, "train_step", timed)
        return now

    return start
