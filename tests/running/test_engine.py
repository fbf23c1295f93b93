"""The engine: one function that plans, trains and tells, for the command line and for Python."""

import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import recollect
from recollect.errors import SpecError, Stopped
from recollect.running import engine, pack
from recollect.running.budget import Budget
from recollect.running.events import (
    Event,
    FailedReopened,
    PackStarted,
    RunEnded,
    RunProgress,
    SweepPlanned,
    TrainingStarted,
)
from recollect.running.processes import parent as processes
from recollect.running.signals import Interrupts
from recollect.spec.sweep import build_sweep
from recollect.store import Store

TABLE: dict[str, Any] = {
    "name": "tiny",
    "task": {"name": "mqar", "vocabulary": 32, "length": 16, "train_rows": 64, "test_rows": 32},
    "model": {"mixer": "attention", "width": 8, "depth": 1},
    "train": {"batch": 32, "steps": 4, "evaluations": 2},
    "sweep": {"train": {"lr": [1e-3, 1e-2]}, "seed": [1, 2]},
}
SWEEP = build_sweep(TABLE)
PLUGIN = """
import recollect
from torch import nn

@recollect.mixer("filed")
class Filed(nn.Linear):
    def __init__(self, width):
        super().__init__(width, width)
"""


def of_kind(heard: list[Event], kind: type) -> list[Any]:
    return [event for event in heard if isinstance(event, kind)]


def numbers(results: recollect.Results) -> list[tuple[Any, ...]]:
    return [
        (row.run_id, row.status, row.steps, row.accuracy, row.test_loss) for row in results.rows
    ]


def test_rows_name_the_code_that_a_pack_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pack, "code_digest", lambda: "as begun")

    def edit(event: Event) -> None:
        if isinstance(event, PackStarted):
            monkeypatch.setattr(pack, "code_digest", lambda: "edited meanwhile")

    one = build_sweep({**TABLE, "sweep": {}})
    engine.train(tmp_path, [one], device="cpu", listen=edit)
    assert {row.versions["code"] for row in recollect.Results.load(tmp_path).rows} == {"as begun"}


def test_a_sweep_is_planned_trained_and_told(tmp_path: Path):
    heard: list[Event] = []
    outcome = engine.train(tmp_path, [SWEEP], device="cpu", listen=heard.append)
    assert (outcome.counts["done"], sum(outcome.counts.values())) == (4, 4)
    assert (outcome.failures, outcome.processes, outcome.next_stage) == ((), 1, None)
    assert heard[0] == SweepPlanned("tiny", runs=4, new=4, known=0)
    assert isinstance(heard[1], TrainingStarted)
    assert (len(heard[1].rows), heard[1].processes) == (4, 1)
    assert len(of_kind(heard, RunEnded)) == 4
    heard.clear()
    engine.train(tmp_path, [SWEEP], device="cpu", listen=heard.append)
    assert heard[0] == SweepPlanned("tiny", runs=4, new=0, known=4)
    assert not of_kind(heard, PackStarted)


def test_without_a_sweep_the_folder_goes_on(tmp_path: Path):
    with Store.create(tmp_path) as store:
        engine.plan(store, SWEEP)
    heard: list[Event] = []
    assert engine.train(tmp_path, device="cpu", listen=heard.append).counts["done"] == 4
    assert not of_kind(heard, SweepPlanned)
    with pytest.raises(SpecError):
        engine.train(tmp_path / "nothing", device="cpu")
    assert not (tmp_path / "nothing").exists()


def test_sweeps_that_are_given_are_trained_before_what_was_left(tmp_path: Path):
    """Then the rest of the folder, each of its runs once."""
    with Store.create(tmp_path) as store:
        engine.plan(store, SWEEP)
    other = build_sweep(TABLE | {"name": "other", "sweep": {"seed": [3, 4, 5]}})
    heard: list[Event] = []
    assert engine.train(tmp_path, [other], device="cpu", listen=heard.append).counts["done"] == 7
    ended = [event.run.run_id for event in of_kind(heard, RunEnded)]
    assert set(ended[:3]) == {run.run_id for run in other.runs}
    assert set(ended[3:]) == {run.run_id for run in SWEEP.runs}


@pytest.mark.usefixtures("plugins")
def test_failed_runs_are_told_and_tried_again_if_asked(tmp_path: Path):
    @recollect.mixer("broken")
    class Broken(torch.nn.Linear):
        def __init__(self, width: int):
            super().__init__(width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            # Normalised, so inside of a model: what is tried beforehand passes.
            if x.mean(-1).abs().max() < 1e-3:
                raise ValueError("a bad day")
            return super().forward(x)

    sweep = build_sweep(TABLE | {"model": {"mixer": "broken", "width": 8, "depth": 1}})
    outcome = engine.train(tmp_path, [sweep], device="cpu")
    assert outcome.counts["failed"] == 4
    assert set(outcome.failures) == {"error: ValueError: a bad day"}
    heard: list[Event] = []
    again = engine.train(tmp_path, device="cpu", retry_failed=True, listen=heard.append)
    assert of_kind(heard, FailedReopened) == [FailedReopened(4)]
    assert len(of_kind(heard, RunEnded)) == again.counts["failed"] == 4


def test_a_stop_saves_and_is_raised(tmp_path: Path):
    heard: list[Event] = []

    def stop() -> int:
        return 130 if of_kind(heard, PackStarted) else 0

    with pytest.raises(Stopped) as stopped:
        engine.train(tmp_path, [SWEEP], device="cpu", listen=heard.append, stop=stop)
    assert stopped.value.exit_code == 130
    with Store.open(tmp_path, read_only=True) as store:
        assert {row.status for row in store.rows()} == {"todo"}
    assert engine.train(tmp_path, device="cpu").counts["done"] == 4


def test_what_is_wrong_is_refused_before_anything_is_written(tmp_path: Path, monkeypatch):
    out = tmp_path / "out"
    with pytest.raises(SpecError, match="--keep 'worst': must be best, all"):
        engine.train(out, [SWEEP], device="cpu", keep="worst")
    with pytest.raises(SpecError, match="--keep abcd: no run of this sweep begins like that"):
        engine.train(out, [SWEEP], device="cpu", keep="abcd")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(SpecError, match="--workers 2: one process fills a GPU"):
        engine.train(out, [SWEEP], device="cuda", workers=2)
    assert not out.exists()


def test_training_leaves_the_threads_as_they_were(tmp_path: Path):
    torch.set_num_threads(4)
    engine.train(tmp_path, [SWEEP], device="cpu")
    assert torch.get_num_threads() == 4
    assert {row.threads for row in recollect.Results.load(tmp_path).rows} == {1}


# ---- a budget ----


def test_a_budget_ends_the_training_and_the_outcome_says_so(tmp_path: Path):
    spent = engine.train(tmp_path, [SWEEP], device="cpu", budget=Budget(1.0, 0.0, lambda: 1.0))
    assert spent.counts["todo"] == 4
    assert spent.next_stage is not None
    ample = engine.train(tmp_path, device="cpu", budget=Budget.start(60.0))
    assert (ample.counts["done"], ample.next_stage) == (4, None)


@pytest.mark.parametrize("minutes", [0, -1.0, float("inf"), float("nan")])
def test_a_budget_is_a_time(tmp_path: Path, minutes: float):
    with pytest.raises(SpecError, match="must be a number of minutes above 0"):
        recollect.run(TABLE, tmp_path / "out", budget=minutes)
    assert not (tmp_path / "out").exists()


def test_processes_share_a_budget(tmp_path: Path):
    one = recollect.run(TABLE, tmp_path / "one", device="cpu")
    budget = Budget.start(60.0)
    many = engine.train(tmp_path / "many", [SWEEP], device="cpu", budget=budget, workers=2)
    assert (many.processes, many.counts["done"], many.next_stage) == (2, 4, None)
    assert numbers(recollect.Results.load(tmp_path / "many")) == numbers(one)


# ---- several processes ----


def test_python_gets_processes_plugins_and_their_events(tmp_path: Path, plugins, monkeypatch):
    monkeypatch.setattr(processes, "WATCH_EVERY_S", 0.1)
    plugin = tmp_path / "filed.py"
    plugin.write_text(PLUGIN)
    table = TABLE | {"model": {"mixer": "filed", "width": 8, "depth": 1}}
    heard: list[Event] = []
    many = recollect.run(
        table, tmp_path / "many", device="cpu", workers=2, plugins=[plugin], listen=heard.append
    )
    assert of_kind(heard, TrainingStarted)[0].processes == 2
    assert {event.run.run_id for event in of_kind(heard, RunEnded)} == {
        row.run_id for row in many.rows
    }
    assert {event.status for event in of_kind(heard, RunEnded)} == {"done"}
    last = {event.run.run_id: event for event in of_kind(heard, RunProgress)}
    assert {(event.left, event.made) for event in last.values()} == {(0, 4)}
    assert all(event.seconds > 0 for event in last.values())
    one = recollect.run(table, tmp_path / "one", device="cpu")
    assert numbers(many) == numbers(one)


# ---- signals ----


def test_signals_are_watched_for_a_while(tmp_path: Path):
    before = signal.getsignal(signal.SIGTERM)

    def listen(event: Event) -> None:
        if isinstance(event, PackStarted):
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped) as stopped:
        recollect.run(TABLE, tmp_path, device="cpu", listen=listen, signals=True)
    assert stopped.value.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is before
    with Interrupts() as interrupts:
        assert interrupts.exit_code() == 0
