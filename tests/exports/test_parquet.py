"""A data set of Parquet files, read by pyarrow and, where they are there, by `datasets` and the
hub's own reader of cards.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from exported_runs import CURVES, DIVERGED, DONE, FAILED, SLICES, TODO
from rows_made import HOSTILE, make_row

from recollect.reports.exports.card import CARD

pytest.importorskip("pyarrow")
import pyarrow
import pyarrow.parquet
import yaml

from recollect.reports.exports.data_set import runs_table, write_data_set


@pytest.fixture(scope="module")
def data_set(results, tmp_path_factory, command) -> Path:
    folder = tmp_path_factory.mktemp("data") / "set"
    arguments = ("--format", "parquet", "-o", folder, "--license", "cc-by-4.0")
    said = command("export", results, *arguments)
    assert (said.code, said.out, said.err) == (0, f"4 runs written to {folder}\n", "")
    return folder


def front_matter(folder: Path) -> dict[str, Any]:
    _, text, _ = (folder / CARD).read_text().split("---\n", 2)
    return dict(yaml.safe_load(text))


def test_one_row_per_run_with_typed_columns(data_set):
    table = pyarrow.parquet.read_table(data_set / "runs.parquet")
    rows = {row["run_id"]: row for row in table.to_pylist()}
    assert list(rows) == [DONE.run_id, DIVERGED.run_id, FAILED.run_id, TODO.run_id]
    done, diverged = rows[DONE.run_id], rows[DIVERGED.run_id]
    assert (done["train.lr"], done["seed"], done["score"], done["steps"]) == (1e-3, 1, 0.875, 100)
    assert (diverged["status"], diverged["diverged_step"], diverged["score"]) == (
        "diverged",
        61,
        0.0,
    )
    assert math.isnan(diverged["test_loss"])
    assert rows[FAILED.run_id]["failure"] == "oom: too wide"
    assert rows[TODO.run_id]["score"] is None
    types = {field.name: str(field.type) for field in table.schema}
    assert (types["train.lr"], types["seed"], types["model.mixer.name"]) == (
        "double",
        "int64",
        "string",
    )
    assert (types["stopped_early"], types["diverged_step"]) == ("string", "int64")


def test_one_row_per_evaluation(data_set):
    points = pyarrow.parquet.read_table(data_set / "curves.parquet").to_pylist()
    assert len(points) == sum(map(len, CURVES.values()))
    first, last = points[0], points[-1]
    assert (first["run_id"], first["step"], first["test_loss"]) == (DONE.run_id, 50, 2.25)
    assert json.loads(first["slices"]) == SLICES
    assert (first["train_score"], last["train_score"], last["slices"]) == (0.125, None, None)
    assert (last["run_id"], math.isnan(last["train_loss"])) == (DIVERGED.run_id, True)
    assert points[2]["train_loss"] == math.inf


def test_the_card_is_for_the_hub_and_tells_what_is_in_it(data_set):
    card = (data_set / CARD).read_text()
    found = front_matter(data_set)
    assert found["license"] == "cc-by-4.0"
    assert found["size_categories"] == ["n<1K"]
    assert [config["config_name"] for config in found["configs"]] == ["runs", "curves"]
    assert all((data_set / config["data_files"]).is_file() for config in found["configs"])
    for line in (
        "`runs` has 4 runs (1 todo, 1 done, 1 diverged, 1 failed), `curves` their 4 evaluations",
        "- tasks: mqar",
        "- mixers: attention, fla:GatedDeltaNet, mamba",
        "- learning rates: 1e-3, 3e-1",
        "- seeds: 1, 2, 3, 4",
        "- devices: cpu (3 runs)",
        "- trained with: torch 2.13 (3 runs)",
        "| train.lr | double | learning rate at its peak |",
    ):
        assert line in card, line


@pytest.mark.parametrize("table", ["runs", "curves"])
def test_every_column_is_described(data_set, table):
    card = (data_set / CARD).read_text()
    for name in pyarrow.parquet.read_schema(data_set / f"{table}.parquet").names:
        (line,) = (
            line
            for line in card.partition(f"## `{table}`")[2].partition("\n## ")[0].splitlines()
            if line.startswith(f"| {name.replace('_', chr(92) + '_')} |")
        )
        assert len(line.split(" | ")[2]) > 5, line


def test_the_same_rows_give_the_same_bytes(data_set, results, command):
    before = {path.name: path.read_bytes() for path in data_set.iterdir()}
    arguments = ("--format", "parquet", "-o", data_set, "--license", "cc-by-4.0")
    assert command("export", results, *arguments).code == 0
    assert {path.name: path.read_bytes() for path in data_set.iterdir()} == before
    assert sorted(before) == ["README.md", "curves.parquet", "runs.parquet"]


def test_a_folder_of_something_else_is_refused_and_left_alone(results, command, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    said = command("export", results, "--format", "parquet", "-o", tmp_path)
    assert (said.code, said.err) == (
        2,
        f"recollect: {tmp_path}: holds something else; choose an empty folder, or one that this "
        "command wrote\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    said = command("export", results, "--format", "parquet", "-o", tmp_path / "thesis.txt")
    assert (said.code, said.err) == (
        2,
        f"recollect: {tmp_path / 'thesis.txt'}: is no folder; name one for the data set with -o\n",
    )
    said = command("export", results, "--format", "parquet", "-o", tmp_path / "thesis.txt" / "a")
    assert (said.code, said.err) == (
        2,
        f"recollect: {tmp_path / 'thesis.txt' / 'a'}: cannot be written (Not a directory); choose "
        "a folder you may write to\n",
    )


def test_settings_of_mixed_kinds_are_text():
    rows = [make_row(model={"width": width}) for width in (64, "wide", [1, 2], True, None)]
    column = runs_table(rows)["model.width"]
    assert str(column.type) == "string"
    assert column.to_pylist() == ["64", "wide", "[1, 2]", "true", None]
    whole = runs_table([make_row(model={"width": width}) for width in (1, 2**70)])["model.width"]
    assert whole.to_pylist() == ["1", str(2**70)]
    numbers = runs_table([make_row(lr=lr) for lr in (1, 0.5)])["train.lr"]
    assert (str(numbers.type), numbers.to_pylist()) == ("double", [1.0, 0.5])


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_names(name, tmp_path):
    write_data_set([make_row(name)], {}, tmp_path, "unknown")
    (mixer,) = pyarrow.parquet.read_table(tmp_path / "runs.parquet")["model.mixer.name"]
    assert mixer.as_py().encode("utf-8", "replace")
    assert front_matter(tmp_path)["license"] == "unknown"
    body = (tmp_path / CARD).read_text().split("---\n", 2)[2]
    assert "<script" not in body
    assert "<img" not in body
    assert "<svg" not in body


def test_datasets_loads_both_tables(data_set, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    runs = datasets.load_dataset(str(data_set), split="train", cache_dir=str(tmp_path / "cache"))
    curves = datasets.load_dataset(
        str(data_set), "curves", split="train", cache_dir=str(tmp_path / "cache")
    )
    assert (runs.num_rows, curves.num_rows) == (4, 4)
    assert runs[0]["run_id"] == curves[0]["run_id"] == DONE.run_id


def test_the_hub_reads_the_card(data_set):
    hub = pytest.importorskip("huggingface_hub")
    found = hub.DatasetCard.load(data_set / CARD).data.to_dict()
    assert found["license"] == "cc-by-4.0"
    assert found["configs"][0]["default"] is True
