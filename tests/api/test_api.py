"""The same work from Python: tables, paths and sweeps in, results out."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recollect
from recollect.api import Results
from recollect.cli.speed_tables import duration
from recollect.errors import SpecError
from recollect.running.engine import plan
from recollect.running.events import PackStarted, RunEnded
from recollect.spec.sweep import build_sweep
from recollect.store import Store
from recollect.training.environment import code_digest

TABLE: dict[str, Any] = {
    "name": "tiny",
    "task": {"name": "mqar", "vocabulary": 32, "length": 16, "train_rows": 64, "test_rows": 32},
    "model": {"mixer": "attention", "width": 8, "depth": 1},
    "train": {"batch": 32, "steps": 4, "evaluations": 2},
    "sweep": {"train": {"lr": [1e-3, 1e-2]}},
}


def test_a_table_a_sweep_and_a_file_give_the_same_results(tmp_path: Path):
    path = tmp_path / "tiny.toml"
    path.write_text(
        'task = { name = "mqar", vocabulary = 32, length = 16, train_rows = 64, test_rows = 32 }\n'
        'model = { mixer = "attention", width = 8, depth = 1 }\n'
        "train = { batch = 32, steps = 4, evaluations = 2 }\n"
    )
    ways = [TABLE, build_sweep(TABLE), path, str(path)]
    found = []
    for number, way in enumerate(ways):
        overrides = ["sweep.train.lr=[1e-3, 1e-2]"] if number > 1 else []
        found.append(recollect.run(way, tmp_path / str(number), device="cpu", overrides=overrides))
    numbers = [
        [(row.run_id, row.status, row.accuracy, row.test_loss) for row in results.rows]
        for results in found
    ]
    assert numbers[1:] == numbers[:-1]
    assert [len(results.runs.curves) for results in found] == [2] * 4


def test_results_are_what_the_folder_holds(tmp_path: Path):
    results = recollect.run(TABLE, tmp_path, device="cpu")
    assert Results.load(str(tmp_path)) == results
    for row in results.rows:
        assert (row.status, row.steps, row.device, row.state_size) == ("done", 4, "cpu", 2 * 8 * 16)
        assert (
            row.parameters == 32 * 8 + 16 * 8 + (4 * 64 + 4 * 8) + (8 * 64 + 5 * 8) + 4 * 8 + 2 * 8
        )
        assert set(row.versions) >= {"recollect", "torch", "python", "numpy"}
        assert row.versions["code"] == code_digest()
        last = results.runs.curves[row.run_id][-1]
        assert (last.step, last.accuracy, last.test_loss) == (4, row.accuracy, row.test_loss)


def test_a_listener_hears_every_run_and_finished_runs_stay(tmp_path: Path):
    heard: list[Any] = []
    first = recollect.run(TABLE, tmp_path, device="cpu", listen=heard.append)
    assert [event.status for event in heard if isinstance(event, RunEnded)] == ["done", "done"]
    assert sum(len(event.runs) for event in heard if isinstance(event, PackStarted)) == 2
    heard.clear()
    larger = TABLE | {"sweep": {"train": {"lr": [1e-3, 1e-2, 1e-1]}}}
    second = recollect.run(larger, tmp_path, device="cpu", listen=heard.append)
    assert len([event for event in heard if isinstance(event, RunEnded)]) == 1
    assert [row for row in second.rows if row.run_id in first.runs.curves] == first.rows


def test_results_as_a_data_frame(tmp_path: Path):
    frame = recollect.run(TABLE, tmp_path, device="cpu").to_pandas()
    assert sorted(frame["train.lr"]) == [1e-3, 1e-2]
    assert set(frame["model.mixer.name"]) == {"attention"}
    assert {"run_id", "status", "accuracy", "wall_s"} <= set(frame.columns)


def test_a_bad_sweep_writes_nothing(tmp_path: Path):
    with pytest.raises(SpecError, match=r"^train\.steps = 0: must be at least 1"):
        recollect.run(TABLE | {"train": {"steps": 0}, "sweep": {}}, tmp_path / "out")
    with pytest.raises(SpecError, match=r"^device = 'abacus': unknown; use auto, cpu, cuda "):
        recollect.run(TABLE, tmp_path / "out", device="abacus")
    assert not (tmp_path / "out").exists()


def test_a_table_may_hold_what_python_has(tmp_path: Path):
    written = build_sweep(TABLE | {"sweep": {"train": {"lr": [1e-3, 1e-2, 1e-1]}}})
    for number, axis in enumerate([(1e-3, 1e-2, 1e-1), np.logspace(-3, -1, 3)]):
        table = TABLE | {"sweep": {"train": {"lr": axis}}, "seed": np.int64(42)}
        found = recollect.run(table, tmp_path / str(number), device="cpu", budget=1e-6)
        assert {row.run_id for row in found.rows} == {run.run_id for run in written.runs}


def test_overrides_reach_a_table_and_leave_it_as_it_was(tmp_path: Path):
    table = copy.deepcopy(TABLE)
    found = recollect.run(
        table, tmp_path, device="cpu", overrides=["train.lr=1e-2", "train.steps=2"], recipe="plain"
    )
    (row,) = found.rows
    assert (row.spec["train"]["lr"], row.spec["train"]["steps"]) == (1e-2, 2)
    assert table == TABLE
    with Store.open(tmp_path, read_only=True) as store:
        (sweep,) = store.sweeps()
    assert build_sweep(json.loads(sweep.source)).runs[0].run_id == row.run_id


@pytest.mark.parametrize(
    ("sweep", "arguments", "problem"),
    [
        (3, {}, "sweep = 3: must be a file's path, paper:NAME, a table or a Sweep; for example "),
        ([TABLE, None], {}, "sweep = None: must be a file's path, paper:NAME, a table or a Sweep"),
        (build_sweep(TABLE), {"overrides": ["seed=1"]}, "sweep = 'tiny': a Sweep is whole"),
        (build_sweep(TABLE), {"recipe": "plain"}, "sweep = 'tiny': a Sweep is whole"),
        (TABLE, {"overrides": ["seed"]}, "--set 'seed': must look like a.b=1"),
        (TABLE, {"recipe": "nobody"}, "recipe = 'nobody'"),
        (TABLE, {"budget": 0}, "--budget 0: must be a number of minutes above 0"),
        (TABLE, {"budget": "1h"}, "budget = '1h': must be a number, or None; for example budget ="),
        (TABLE, {"overrides": "seed"}, "--set 'seed': must look like a.b=1"),
        (TABLE, {"workers": -1}, "workers = -1: must be at least 0; 0 takes as many"),
        (TABLE, {"search": "corners"}, "search 'corners'"),
        (TABLE, {"keep": "worst"}, "keep"),
        (TABLE, {"plugins": ["nowhere.py"]}, "nowhere.py"),
        ("nowhere.toml", {}, "nowhere.toml"),
    ],
)
def test_what_is_asked_for_wrongly_writes_nothing(tmp_path: Path, sweep, arguments, problem):
    with pytest.raises(SpecError) as caught:
        recollect.run(sweep, tmp_path / "out", device="cpu", **arguments)
    assert problem in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3
    assert not (tmp_path / "out").exists()


def test_planning_twice_adds_nothing(tmp_path: Path):
    with Store.create(tmp_path) as store:
        assert plan(store, build_sweep(TABLE)).new == 2
        again = plan(store, build_sweep(TABLE))
        assert (again.new, again.known["todo"]) == (0, 2)
        assert [sweep.name for sweep in store.sweeps()] == ["tiny"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1.54, "1.5 s"),
        (59, "59 s"),
        (720, "12 min"),
        (12_240, "3.4 h"),
        (200_000, "2.3 days"),
    ],
)
def test_durations_in_words(seconds, text):
    assert duration(seconds) == text


def test_a_budget_and_the_studys_experiments_from_python(tmp_path):
    tiny = [
        "train.steps=2",
        "train.evaluations=1",
        "train.batch=16",
        "task.test_rows=32",
        "model.width=8",
        "seed=1",
    ]
    results = recollect.run(
        "paper:fig1:small", tmp_path / "none", device="cpu", overrides=tiny, budget=1e-6
    )
    assert {row.status for row in results.rows} == {"todo"}
    results = recollect.run(
        "paper:fig1:small",
        tmp_path / "all",
        device="cpu",
        overrides=[*tiny, "train.lr=1e-3"],
        budget=60,
    )
    assert [row.status for row in results.rows] == ["done"] * 3
