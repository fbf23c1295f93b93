"""The command line: every verb on a tiny real sweep.

Options and help: test_cli_options.py. Lists: test_cli_about.py. Plug-ins: test_cli_plugins.py.
Refusals: test_cli_refusals.py.
"""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from recollect.store import Store


@pytest.fixture(scope="module")
def trained(command, tiny_sweep: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A finished sweep and what was said while it trained; nobody may write there."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "tiny.toml").write_text(tiny_sweep)
    return folder / "out", command(
        "run", folder / "tiny.toml", "--out", folder / "out", "--device", "cpu"
    )


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# ---- run ----


def test_run_says_one_line_per_run_when_nobody_watches(trained):
    out, said = trained
    lines = said.out.splitlines()
    assert (said.code, said.err) == (0, "")
    assert lines[0] == f"tiny: 4 runs, 4 new -> {out}"
    assert [line.split()[:4] for line in lines[1:5]] == [
        ["[1/4]", "done", "attention", "width=8"],
        ["[2/4]", "done", "attention", "width=8"],
        ["[3/4]", "done", "mamba", "width=8"],
        ["[4/4]", "done", "mamba", "width=8"],
    ]
    assert lines[5] == "4 planned = 4 done + 0 diverged + 0 failed + 0 running + 0 todo"
    assert [line.split()[0] for line in lines[6:8]] == ["attention", "mamba"]
    assert lines[8:] == [
        f"next: `recollect report {out}` (a page) or `recollect figure windows {out}`"
    ]


def test_run_again_trains_nothing_again(command, trained, spec: Path):
    out, _ = trained
    before = Store.open(out, read_only=True).rows()
    said = command("run", spec, "--out", out, "--device", "cpu")
    assert (said.code, said.out.splitlines()[0]) == (0, f"tiny: 4 runs, 0 new, 4 known -> {out}")
    assert "[1/4]" not in said.out
    assert Store.open(out, read_only=True).rows() == before


def test_run_with_overrides(command, spec: Path, tmp_path: Path):
    said = command(
        "run",
        spec,
        "--out",
        tmp_path / "out",
        "--set",
        "model.mixer=mamba",
        "--set",
        "train.lr=0.5",
        "--device",
        "cpu",
    )
    assert (said.code, said.out.splitlines()[0]) == (
        0,
        f"tiny: 1 run, 1 new -> {tmp_path / 'out'}",
    )
    (row,) = Store.open(tmp_path / "out", read_only=True).rows()
    assert (row.spec["model"]["mixer"]["name"], row.spec["train"]["lr"], row.status) == (
        "mamba",
        0.5,
        "done",
    )


def test_dry_run_says_what_it_would_cost_and_writes_nothing(
    command, trained, spec: Path, tmp_path: Path
):
    said = command("run", spec, "--out", tmp_path / "out", "--dry-run", "--device", "cpu")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].split("  ")[0] == "shape"
    assert [line.split(",")[1].strip() for line in lines[1:3]] == ["attention", "mamba"]
    assert lines[3].split()[:4] == ["all", "4", "0", "2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.toml"]
    out, _ = trained
    before = content(out)
    said = command("run", spec, "--out", out, "--dry-run", "--device", "cpu")
    assert said.out.splitlines()[3].split()[:4] == ["all", "4", "4", "0"]
    assert content(out) == before


def test_the_live_view_renders_on_a_terminal(command, spec: Path, tmp_path: Path, monkeypatch):
    screens = []

    def terminal() -> Console:
        screens.append(Console(force_terminal=True, record=True, width=100, file=io.StringIO()))
        return screens[-1]

    monkeypatch.setattr("rich.console.Console", terminal)
    said = command("run", spec, "--out", tmp_path / "out", "--device", "cpu")
    assert said.code == 0
    assert "[1/4]" not in said.out
    shown = screens[0].export_text()
    assert "4 of 4 runs" in shown
    assert "best score so far" in shown
    assert "mamba" in shown


def test_dry_run_tells_two_variants_of_a_mixer_apart(command, spec: Path, tmp_path: Path):
    both = '[{name="mamba"}, {name="mamba", init="zoology"}]'
    said = command(
        *("run", spec, "--out", tmp_path / "out", "--dry-run", "--device", "cpu"),
        *("--set", f"sweep.model.mixer={both}"),
    )
    shapes = [line for line in said.out.splitlines() if "mamba" in line]
    assert ["init official" in shapes[0], "init zoology" in shapes[1]] == [True, True]


@pytest.mark.parametrize("search", ["edges", "best"])
def test_dry_run_says_that_a_search_trains_less(command, spec: Path, tmp_path: Path, search):
    asked = ("run", spec, "--out", tmp_path / "out", "--dry-run", "--device", "cpu")
    assert "trains only a part" not in command(*asked).out
    said = command(*asked, "--search", search)
    assert f"--search {search} trains only a part of that" in said.out
    assert command(*asked, "--search", "beste").code == 2


# ---- resume, status ----


def test_resume_trains_what_is_planned(command, spec: Path, tmp_path: Path):
    from recollect.running import engine
    from recollect.spec.sweep import read_sweep

    with Store.create(tmp_path / "out") as store:
        engine.plan(store, read_sweep(spec))
    shown = command("status", tmp_path / "out").out.splitlines()
    assert shown[:2] == [
        "4 planned = 0 done + 0 diverged + 0 failed + 0 running + 4 todo",
        "recipes: plain 4",
    ]
    assert [line.split() for line in shown[3:]] == [
        *([name, "0/2", "-", "-", "?"] for name in ("attention", "mamba")),
        ["all", "0/4", "?"],
    ]
    said = command("resume", tmp_path / "out", "--device", "cpu")
    assert (said.code, said.err) == (0, "")
    assert said.out.count("[") == 4
    shown = command("status", tmp_path / "out").out.splitlines()
    assert shown[0] == "4 planned = 4 done + 0 diverged + 0 failed + 0 running + 0 todo"
    assert [line.split()[:2] for line in shown[3:]] == [
        ["attention", "2/2"],
        ["mamba", "2/2"],
        ["all", "4/4"],
    ]
    assert command("resume", tmp_path / "out", "--device", "cpu").code == 0


# ---- report, export, figure ----


def test_report_is_one_page(command, trained, tmp_path: Path):
    out, _ = trained
    said = command("report", out, "-o", tmp_path / "page.html")
    assert (said.code, said.out) == (0, f"report: {tmp_path / 'page.html'}\n")
    assert "attention" in (tmp_path / "page.html").read_text()


def test_export_gives_csv_and_json(command, trained, tmp_path: Path):
    out, _ = trained
    rows = list(csv.DictReader(io.StringIO(command("export", out).out)))
    assert sorted(
        (row["model.mixer.name"], float(row["train.lr"]), row["status"]) for row in rows
    ) == [(mixer, rate, "done") for mixer in ("attention", "mamba") for rate in (1e-3, 1e-2)]
    records = json.loads(command("export", out, "--format", "json").out)
    assert [record["run_id"] for record in records] == [row["run_id"] for row in rows]
    assert "curve" not in records[0]
    curves = json.loads(command("export", out, "--format", "json", "--curves").out)
    assert [[point["step"] for point in record["curve"]] for record in curves] == [[2, 4]] * 4
    said = command("export", out, "-o", tmp_path / "rows.csv")
    assert said.out == f"4 runs written to {tmp_path / 'rows.csv'}\n"
    assert (tmp_path / "rows.csv").read_text() == command("export", out).out
    command("export", out, "-o", tmp_path / "rows.json", "--curves")
    assert json.loads((tmp_path / "rows.json").read_text()) == curves
    assert list(csv.DictReader(io.StringIO(command("export", out, "--salvage").out))) == rows


def test_figure_draws_any_rows_and_two_folders_over_each_other(command, trained, tmp_path: Path):
    out, _ = trained
    target = tmp_path / "rates.pdf"
    options = ("-o", target, "--size", "5x4", "--no-title", "--compare", out)
    said = command("figure", "rates", out, *options)
    assert (said.code, said.out, said.err) == (0, f"rates: {target}\n", "")
    assert target.read_bytes().startswith(b"%PDF")
    said = command("figure", "fig1", out, "--tau", "0.5")
    assert (said.code, said.err) == (
        2,
        "recollect: fig1: --compare, --tau and --against are for rates, windows, curves, scaling\n",
    )
