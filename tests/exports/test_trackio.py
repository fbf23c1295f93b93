"""A Trackio project, read through Trackio's own interface and storage."""

import math
import sqlite3
from importlib.util import find_spec
from pathlib import Path

import pytest
from exported_runs import DIVERGED, DONE, told

from recollect.rows import RunRow

# Not imported here: the place of its projects would be read too early.
pytestmark = pytest.mark.skipif(find_spec("trackio") is None, reason="trackio is not installed")
PROJECT = "replayed"


@pytest.fixture(scope="module")
def home(results, trackio_home, command) -> Path:
    said = command("export", results, "--to", "trackio", "-o", trackio_home, "--project", PROJECT)
    assert said.code == 0, said.err
    assert said.out == (
        f"2 runs added to {trackio_home}, 0 there already, 2 without a result left out\n"
        f"show them with `TRACKIO_DIR={trackio_home} trackio show --project {PROJECT}`\n"
    )
    return Path(trackio_home)


def test_runs_have_our_ids_names_and_settings(home):
    import trackio

    runs = {run.id: run for run in trackio.Api().runs(PROJECT)}
    assert {run_id: run.name for run_id, run in runs.items()} == {
        DONE.run_id: "attention lr=0.001 seed=1",
        DIVERGED.run_id: "fla:GatedDeltaNet lr=0.3 seed=2",
    }
    config = runs[DONE.run_id].config
    assert config is not None
    assert (config["train.lr"], config["model.width"], config["result.status"]) == (
        1e-3,
        64,
        "done",
    )


@pytest.mark.parametrize("run", [DONE, DIVERGED], ids=["done", "diverged"])
def test_metrics_are_the_stored_numbers(home, run: RunRow):
    from trackio.sqlite_storage import SQLiteStorage

    logs = SQLiteStorage.get_logs(PROJECT, None, run_id=run.run_id)
    for name, wanted in told(run).items():
        found = [(log["step"], float(log[name])) for log in logs if name in log]
        assert [step for step, _ in found] == [step for step, _ in wanted]
        assert [value for _, value in found] == pytest.approx(
            [value for _, value in wanted], rel=0, abs=0, nan_ok=True
        )
    assert logs[-1]["result/score"] == (0.875 if run is DONE else 0)
    assert math.isinf(float(logs[0]["train/loss"])) == (run is DIVERGED)


def test_all_of_it_is_in_the_one_file(home):
    assert not list(home.glob("*-wal"))


def test_a_second_export_adds_nothing(home, results, command):
    def lines() -> list[tuple[object, ...]]:
        with sqlite3.connect(home / f"{PROJECT}.db") as database:
            return [
                *database.execute("SELECT * FROM metrics ORDER BY id"),
                *database.execute("SELECT * FROM configs ORDER BY run_id"),
            ]

    before = lines()
    said = command("export", results, "--to", "trackio", "-o", home, "--project", PROJECT)
    assert said.out.startswith(f"0 runs added to {home}, 2 there already")
    assert len(before) == 2 * 2 + 2
    assert lines() == before


def test_what_trackio_was_loaded_with_is_not_changed_under_it(home, results, command, tmp_path):
    said = command("export", results, "--to", "trackio", "-o", tmp_path / "other")
    assert (said.code, said.err) == (
        2,
        f"recollect: {tmp_path / 'other'}: Trackio is loaded with {home} already; set TRACKIO_DIR "
        "before it is imported\n",
    )


def test_its_file_must_not_be_taken_for_results(results, command, tmp_path):
    said = command("export", results, "--to", "trackio", "-o", tmp_path, "--project", "recollect")
    assert (said.code, said.err) == (
        2,
        "recollect: --project recollect: Trackio would call its file recollect.db, as results are "
        "called; choose another name\n",
    )
