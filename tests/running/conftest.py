"""Runs of several shapes, and a worker for them."""

import pytest
from workers_made import Trainer

from recollect.spec.run import RunSpec
from recollect.training.early import EarlyDecisions


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
