"""What `recollect export` refuses, and that nothing was written then."""

import importlib.util
from pathlib import Path

import pytest
from rows_made import make_row
from stores_made import make_store

from recollect.reports.exports import optional
from recollect.reports.exports.trackers import TRACKERS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_store(tmp_path / "out", [make_row()])
    return tmp_path / "out"


def without(monkeypatch, package: str) -> None:
    """As if the package were not installed, and all others were."""
    there = importlib.util.find_spec("json")
    monkeypatch.setattr(optional, "find_spec", lambda name: None if name == package else there)


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_tracker_names_its_extra(name, folder, command, monkeypatch):
    without(monkeypatch, name)
    said = command("export", folder, "--to", name)
    assert (said.code, said.out, said.err) == (
        2,
        "",
        f"recollect: --to {name}: {name} is not installed; `pip install 'recollect[{name}]'`\n",
    )


def test_missing_pyarrow_names_its_extra(folder, command, monkeypatch):
    without(monkeypatch, "pyarrow")
    said = command("export", folder, "--format", "parquet", "-o", folder.parent / "set")
    assert (said.code, said.err) == (
        2,
        "recollect: --format parquet: pyarrow is not installed; `pip install "
        "'recollect[parquet]'`\n",
    )
    assert not (folder.parent / "set").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--to", "wand"], "--to wand: no such tracker; did you mean wandb?"),
        (
            ["--to", "comet"],
            "--to comet: no such tracker; known: mlflow, tensorboard, trackio, wandb",
        ),
        (["--format", "parket"], "--format parket: no such format; did you mean parquet?"),
        (
            ["--curves"],
            "--curves: for json alone (csv is asked for); add --format json, or leave it out",
        ),
        (
            ["-o", "runs.xlsx"],
            "-o 'runs.xlsx': must end in .csv or .json; for another name say --format csv or "
            "--format json",
        ),
        (
            ["--to", "wandb", "--format", "csv"],
            "--to wandb: replays whole runs with their curves; leave out --format, --curves and "
            "--salvage",
        ),
        (
            ["--to", "wandb", "--salvage"],
            "--to wandb: replays whole runs with their curves; leave out --format, --curves and "
            "--salvage",
        ),
        (
            ["--to", "wandb", "--project", "a/b"],
            "--project 'a/b': must be at most 64 of the letters a-z, A-Z, 0-9, '_' and '-'; for "
            "example --project recall",
        ),
        (
            ["--format", "parquet"],
            "--format parquet: is a folder of files; name it with -o FOLDER",
        ),
        (
            ["--format", "parquet", "-o", "set", "--license", "a: b"],
            "--license 'a: b': must be a licence's short name as hubs write it; for example "
            "--license cc-by-4.0",
        ),
        (
            ["--to", "tensorboard", "-o", "out"],
            "out: is a folder of results; choose another for what tensorboard writes",
        ),
        (
            ["--to", "trackio", "-o", "logs", "--project", "recollect"],
            "--project recollect: Trackio would call its file recollect.db, as results are called; "
            "choose another name",
        ),
    ],
)
def test_bad_requests_are_refused_before_anything_is_read(
    options, message, folder, command, monkeypatch
):
    without(monkeypatch, "nothing")
    monkeypatch.chdir(folder.parent)
    said = command("export", "out", *options)
    assert (said.code, said.out, said.err) == (2, "", f"recollect: {message}\n")
    assert [path.name for path in folder.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("options", [["--to", "wandb"], ["--format", "parquet", "-o", "set"]])
def test_nothing_to_export(options, tmp_path, command, monkeypatch):
    without(monkeypatch, "nothing")
    monkeypatch.chdir(tmp_path)
    make_store(tmp_path / "out", [make_row(status="todo"), make_row(seed=1, status="running")])
    said = command("export", "out", *options)
    assert said.code == 2
    assert said.err.startswith("recollect: nothing to export: no run has ended")
    assert said.err.endswith("`recollect status DIR` says more\n")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", TRACKERS)
def test_a_place_that_cannot_be_written_is_refused(name, folder, command):
    pytest.importorskip(name)
    (folder.parent / "file").write_text("")
    said = command("export", folder, "--to", name, "-o", folder.parent / "file" / "logs")
    assert said.code == 2
    assert "cannot be written (Not a directory); choose a folder you may write to" in said.err
