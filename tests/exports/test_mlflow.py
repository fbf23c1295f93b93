"""An MLflow store, read through MLflow's own client."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest
from exported_runs import DIVERGED, DONE, told

from recollect.rows import RunRow

pytest.importorskip("mlflow")
pytest.importorskip("sqlalchemy")
TAG = "recollect.run_id"


@pytest.fixture
def client(mlflow_folder: Path) -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=f"sqlite:///{mlflow_folder}/mlflow.db")


def find(client: Any) -> dict[str, Any]:
    """The runs that MLflow shows, by our id."""
    experiment = client.get_experiment_by_name("recall").experiment_id
    found = client.search_runs([experiment])
    assert len({run.data.tags[TAG] for run in found}) == len(found), "a run is there twice"
    return {run.data.tags[TAG]: run for run in found}


def histories(client: Any, run: Any) -> dict[str, list[tuple[int, float]]]:
    return {
        name: [
            (metric.step, metric.value)
            for metric in client.get_metric_history(run.info.run_id, name)
        ]
        for name in run.data.metrics
    }


@pytest.mark.parametrize("run", [DONE, DIVERGED], ids=["done", "diverged"])
def test_metrics_are_the_stored_numbers(client, run: RunRow):
    found = histories(client, find(client)[run.run_id])
    assert {name for name in found if not name.startswith("result/")} == told(run).keys()
    for name, wanted in told(run).items():
        assert [step for step, _ in found[name]] == [step for step, _ in wanted]
        # MLflow stores the largest number there is for infinity.
        values = [sys.float_info.max if math.isinf(value) else value for _, value in wanted]
        assert [value for _, value in found[name]] == pytest.approx(
            values, rel=0, abs=0, nan_ok=True
        )
    (score,) = found["result/score"]
    assert score == ((100, 0.875) if run is DONE else (70, 0))


def test_settings_are_parameters_and_the_id_is_a_tag_and_in_the_name(client):
    run = find(client)[DONE.run_id]
    assert run.info.run_name == f"attention lr=0.001 seed=1 {DONE.run_id}"
    assert run.info.status == "FINISHED"
    assert run.info.end_time - run.info.start_time == 4000
    parameters = run.data.params
    assert (parameters["train.lr"], parameters["model.mixer.name"]) == ("0.001", "attention")
    assert parameters["result.versions.torch"] == "2.13"


def test_a_second_export_adds_nothing(client, mlflow_folder, results, command):
    before = {key: histories(client, run) for key, run in find(client).items()}
    said = command("export", results, "--to", "mlflow", "-o", mlflow_folder)
    assert said.out.startswith(
        f"0 runs added to sqlite:///{mlflow_folder}/mlflow.db, 2 there already"
    )
    after = {key: histories(client, run) for key, run in find(client).items()}
    assert repr(after) == repr(before)  # in which NaN equals NaN


def test_what_an_interrupted_export_left_is_written_anew(client, mlflow_folder, results, command):
    half = find(client)[DONE.run_id].info.run_id
    client.update_run(half, status="RUNNING")
    said = command("export", results, "--to", "mlflow", "-o", mlflow_folder)
    assert said.out.startswith(
        f"1 run added to sqlite:///{mlflow_folder}/mlflow.db, 1 there already"
    )
    run = find(client)[DONE.run_id]
    assert run.info.run_id != half
    assert histories(client, run)["test/accuracy"] == [(50, 0.25), (100, 0.875)]


def test_a_path_that_mlflow_would_misread_is_refused(results, command, tmp_path):
    said = command("export", results, "--to", "mlflow", "-o", tmp_path / "a?b")
    assert (said.code, said.err) == (
        2,
        f"recollect: {tmp_path / 'a?b'}: MLflow reads ?, # and % in a path as signs; choose "
        "another name\n",
    )
    assert not (tmp_path / "a?b").exists()
