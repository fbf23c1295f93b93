"""Offline runs of W&B, read from the files that `wandb sync` sends, and by its dry run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from exported_runs import DIVERGED, DONE, told
from wandb_file import records

from recollect.rows import RunRow

pytest.importorskip("wandb")


@pytest.fixture(scope="module")
def place(results, tmp_path_factory, command) -> Path:
    folder = tmp_path_factory.mktemp("offline")
    said = command("export", results, "--to", "wandb", "-o", folder)
    assert said.code == 0, said.err
    place = folder / "wandb"
    assert said.out == (
        f"2 runs added to {place}, 0 there already, 2 without a result left out\n"
        f"show them with `wandb sync {place}/offline-run-*`\n"
    )
    return place


def read(place: Path, run: RunRow) -> list[Any]:
    (file,) = place.glob(f"offline-run-*-{run.run_id}/run-{run.run_id}.wandb")
    return list(records(file))


def history(found: list[Any]) -> dict[str, list[tuple[int, float]]]:
    metrics: dict[str, list[tuple[int, float]]] = {}
    for record in found:
        if record.WhichOneof("record_type") == "history":
            values = {
                item.key or ".".join(item.nested_key): json.loads(item.value_json)
                for item in record.history.item
            }
            for name in values.keys() - {"_step", "_runtime", "_timestamp"}:
                metrics.setdefault(name, []).append((values["_step"], float(values[name])))
    return metrics


@pytest.mark.parametrize("run", [DONE, DIVERGED], ids=["done", "diverged"])
def test_the_history_is_the_stored_curve(place, run: RunRow):
    found = history(read(place, run))
    assert found.keys() == told(run).keys()
    for name, wanted in told(run).items():
        assert [step for step, _ in found[name]] == [step for step, _ in wanted]
        assert [value for _, value in found[name]] == pytest.approx(
            [value for _, value in wanted], rel=0, abs=0, nan_ok=True
        )


def test_id_name_group_settings_and_results(place):
    found = read(place, DONE)
    (run,) = (record.run for record in found if record.WhichOneof("record_type") == "run")
    assert (run.run_id, run.display_name, run.project) == (
        DONE.run_id,
        "attention lr=0.001 seed=1",
        "recall",
    )
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert (config["train.lr"], config["model.mixer.name"]) == (1e-3, "attention")
    assert (config["result.status"], config["result.device"]) == ("done", "cpu")
    summary = {
        item.key or ".".join(item.nested_key): json.loads(item.value_json)
        for record in found
        if record.WhichOneof("record_type") == "summary"
        for item in record.summary.update
    }
    assert (summary["result/score"], summary["result/parameters"]) == (0.875, 1234)


def test_a_run_file_is_whole_and_says_nothing_of_this_machine(place):
    found = read(place, DONE)
    kinds = [record.WhichOneof("record_type") for record in found]
    assert "exit" in kinds
    assert not {"stats", "output", "output_raw", "environment"} & set(kinds)
    folder = next(place.glob(f"*-{DONE.run_id}"))
    assert sorted(path.name for path in folder.iterdir()) == ["files", f"run-{DONE.run_id}.wandb"]
    assert not list((folder / "files").iterdir())


def test_wandb_itself_finds_the_runs_to_send(place):
    said = subprocess.run(
        [sys.executable, "-m", "wandb", "sync", "--dry-run"],
        cwd=place.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    for run in (DONE, DIVERGED):
        assert run.run_id in said.stdout + said.stderr


def test_a_second_export_adds_nothing(place, results, command):
    def contents() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file()}

    before = contents()
    said = command("export", results, "--to", "wandb", "-o", place.parent)
    assert said.out.startswith(f"0 runs added to {place}, 2 there already")
    assert contents() == before
