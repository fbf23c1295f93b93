"""The command line: every verb on a tiny real sweep, and the list of all options, frozen.

Refusals: test_cli_refusals.py.
"""

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

import recollect
from recollect.cli import app as cli
from recollect.mixers.registry import MIXERS
from recollect.store import Store

TINY = """
[task]
name = "mqar"
vocabulary = 32
length = 16
train_rows = 64
test_rows = 32
[model]
width = 8
depth = 1
[train]
batch = 32
steps = 4
evaluations = 2
[sweep]
model.mixer = ["attention", "mamba"]
train.lr = [1e-3, 1e-2]
"""
PLUGIN = """
import recollect
from torch import nn

@recollect.mixer("filed")
class Filed(nn.Linear):
    def __init__(self, width, gain=1.0):
        super().__init__(width, width)

    def forward(self, x):
        BODY
"""
SOUND, BROKEN, TOO_LARGE = (
    "return super().forward(x)",
    # normalised, so only inside of a model: what is tried beforehand passes
    "if x.mean(-1).abs().max() < 1e-3: raise ValueError('a bad day')\n        "
    "return super().forward(x)",
    "raise MemoryError",
)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def trained(command, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A finished sweep and what was said while it trained; nobody may write there."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "tiny.toml").write_text(TINY)
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
        f"tiny: 1 runs, 1 new -> {tmp_path / 'out'}",
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
        [name, "0/2", "-", "-", "?"] for name in ("attention", "mamba")
    ]
    said = command("resume", tmp_path / "out", "--device", "cpu")
    assert (said.code, said.err) == (0, "")
    assert said.out.count("[") == 4
    shown = command("status", tmp_path / "out").out.splitlines()
    assert shown[0] == "4 planned = 4 done + 0 diverged + 0 failed + 0 running + 0 todo"
    assert [line.split()[:2] for line in shown[3:]] == [["attention", "2/2"], ["mamba", "2/2"]]
    assert command("resume", tmp_path / "out", "--device", "cpu").code == 0


# ---- report, export ----


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
    assert list(csv.DictReader(io.StringIO(command("export", out, "--salvage").out))) == rows


# ---- what there is ----


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


def test_mixers_and_tasks_are_listed_with_their_options(command):
    listed = command("mixers", "--width", 128, "--length", 64).out.splitlines()
    assert [line.split()[0] for line in listed] == ["mixer", *MIXERS]
    assert listed[1].split()[1:6] == [
        "attention",
        f"{4 * 128**2 + 4 * 128:,}",
        f"{2 * 128 * 64:,}",
        "yes:",
        "matrix",
    ]
    about, wants, *options = command("mixers", "mamba").out.splitlines()
    assert about == "mamba: selective state space with gate and short convolution (Gu and Dao 2023)"
    assert (
        wants == 'model.block = "mixer", model.norm = "rms", model.positions = "none" unless given'
    )
    assert [line.split()[:2] for line in options[1:]] == [
        ["state", "16"],
        ["kernel", "4"],
        ["expand", "2"],
        ["gate", "true"],
        ["init", '"official"'],
    ]
    assert '"official", "zoology"' in options[-1]
    assert [line.split()[:2] for line in command("tasks").out.splitlines()[1:]] == [
        ["mqar", "accuracy"],
        ["recall", "accuracy"],
        ["copying", "exact"],
        ["ngram_lookup", "exact"],
    ]
    assert "pairs             4 " in command("tasks", "mqar").out


def test_a_mixer_that_does_not_fit_a_width_says_so_in_the_list(command):
    listed = {line.split()[0]: line for line in command("mixers", "--width", 24).out.splitlines()}
    assert "not at this width: mixer.head = 64: must divide expand * width = 48" in listed["mamba2"]
    assert "not at this width" not in listed["attention"]


@pytest.mark.parametrize("verb", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_a_layer_of_fla_says_what_is_missing_here_and_writes_nothing(
    command, spec: Path, tmp_path: Path, verb
):
    out = tmp_path / "out"
    said = command(
        "run",
        spec,
        "--out",
        out,
        "--set",
        "model.mixer=fla:GatedDeltaNet",
        "--device",
        "cpu",
        *verb,
    )
    assert said.code == 2
    assert said.err.startswith("recollect: ")
    assert len(said.err.splitlines()) <= 2  # what is missing, and for which run
    # One of the two is missing wherever these tests run; with both, a CPU is still refused.
    assert (
        "needs the package flash-linear-attention, which is not installed" in said.err
        or "need an NVIDIA GPU" in said.err
    )
    assert not out.exists()


def test_doctor_looks_at_everything(command):
    said = command("doctor")
    assert said.code == 0
    found = [line.split()[0] for line in said.out.splitlines() if not line.startswith(" ")]
    assert found == ["recollect", "python", "torch", "cpu", "gpu", "triton", "sqlite"]


# ---- plugins ----


@pytest.fixture
def plugin(tmp_path: Path, plugins: None) -> Callable[[str], Path]:
    def write(body: str) -> Path:
        path = tmp_path / "filed.py"
        path.write_text(PLUGIN.replace("BODY", body))
        return path

    return write


def test_a_plugin_is_trained_listed_and_asked_for_again(
    command, spec: Path, tmp_path: Path, plugin
):
    path, out = plugin(SOUND), tmp_path / "out"
    said = command(
        "run", spec, "--out", out, "--plugin", path, "--set", "model.mixer=filed", "--device", "cpu"
    )
    assert (said.code, said.out.splitlines()[0]) == (0, f"tiny: 2 runs, 2 new -> {out}")
    listed = command("mixers", "--plugin", path).out.splitlines()[-1].split()
    assert listed == ["filed", "plugin", "4,160", "unknown", "no:", "run", "by", "run", "plug-in"]
    assert command("mixers", "filed", "--plugin", path).out.splitlines()[-1].split() == [
        "gain",
        "1.0",
    ]
    del MIXERS["filed"]
    assert command("status", out).code == 0
    assert command("export", out).code == 0


def test_a_failing_plugin_fails_its_runs_and_the_exit_code_says_so(
    command, spec: Path, tmp_path: Path, plugin
):
    out, mixers = tmp_path / "out", 'sweep.model.mixer=["filed", "attention"]'
    arguments = ("--out", out, "--plugin", plugin(BROKEN), "--set", mixers, "--device", "cpu")
    said = command("run", spec, *arguments)
    assert said.code == 1
    assert said.err == (
        "recollect: 2 runs failed, the first with: error: ValueError: a bad day\n"
        f"`recollect failures {out}` shows where\n"
    )
    told = command("failures", out)
    assert (told.code, told.err) == (0, "")
    reason, runs, *traceback = told.out.splitlines()
    assert reason == "2 runs of filed: error: ValueError: a bad day"
    assert len(runs.split()) == 2
    assert traceback[0] == "Traceback (most recent call last):"
    assert traceback[-1] == "ValueError: a bad day"
    assert any(line.strip().startswith(f'File "{tmp_path / "filed.py"}"') for line in traceback)
    assert "4 planned = 2 done + 0 diverged + 2 failed + 0 running + 0 todo" in said.out
    assert command("resume", out, "--plugin", tmp_path / "filed.py", "--device", "cpu").code == 1
    said = command(
        "resume", out, "--plugin", tmp_path / "filed.py", "--retry-failed", "--device", "cpu"
    )
    assert (said.code, said.out.splitlines()[0]) == (1, "2 failed runs will be tried again")
    said = command("run", spec, *arguments, "--dry-run")
    assert said.err == "recollect: mixer filed fails: ValueError: a bad day; mend the plugin\n"
    del MIXERS["filed"]
    said = command("resume", out, "--retry-failed", "--device", "cpu")
    assert (said.code, said.err) == (
        2,
        "recollect: mixer filed: comes from a plug-in, whose code runs only if you name it: add "
        f"--plugin {tmp_path / 'filed.py'}\n",
    )


def test_runs_that_do_not_fit_into_memory_have_their_own_exit_code(
    command, spec: Path, tmp_path: Path, plugin
):
    arguments = ("--plugin", plugin(TOO_LARGE), "--set", "model.mixer=filed", "--device", "cpu")
    said = command("run", spec, "--out", tmp_path / "out", *arguments)
    assert said.code == 4
    assert "oom: one run alone does not fit into memory; use a smaller batch or width" in said.err


# ---- asking for help ----


def test_nothing_asked_is_help(command):
    said = command()
    assert (said.code, said.err) == (0, "")
    assert said.out == command("--help").out


def test_the_module_is_the_command():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-m", "recollect", "tasks", "mqr"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert (ended.returncode, ended.stderr) == (
        2,
        "recollect: 'mqr' is no task here; did you mean mqar?\n",
    )


# ---- the frozen list ----

OPTIONS = {
    "claims": {"folders", "--recipe", "--only", "--json", "-o", "--output"},
    "demo": {"--out", "--device"},
    "run": {
        "specs",
        "--out",
        "--recipe",
        "--set",
        "--device",
        "--plugin",
        "--keep",
        "--snapshots",
        "--budget",
        "--search",
        "--workers",
        "--dry-run",
    },
    "resume": {
        *("folder", "--device", "--plugin", "--budget", "--search", "--workers"),
        "--retry-failed",
    },
    "status": {"folder"},
    "check": {"folder", "--plugin"},
    "merge": {"into", "others"},
    "report": {"folders", "-o", "--output"},
    "watch": {"folders", "--port", "--token"},
    "inspect": {"folder", "run", "--again", "--device", "--plugin"},
    "figure": {
        *("name", "folders", "-o", "--output", "--band", "--size", "--title"),
        *("--caption", "--compare", "--where", "--tau", "--against"),
    },
    "export": {"folder", "--format", "-o", "--output", "--curves", "--salvage"},
    "failures": {"folder"},
    "mixers": {"name", "--width", "--length", "--plugin"},
    "bench": {
        "--mixer",
        "--shape",
        "--population",
        "--precision",
        "--against",
        "--json",
        "--device",
    },
    "tasks": {"name"},
    "presets": {"name"},
    "recipes": {"name"},
    "doctor": set(),
    "score": {
        *(
            "mixer",
            "--out",
            "--card",
            "--budget",
            "--set",
            "--device",
            "--plugin",
            "--workers",
            "--against",
            "--save",
            "--dry-run",
        ),
    },
    "submit": {
        *("what", "--out", "--slurm", "--ray", "--set", "--plugin", "--device", "--dry-run"),
        *("--runs-per-pack", "--time", "--partition", "--account", "--qos", "--constraint"),
        *("--gres", "--cpus", "--mem", "--array-limit", "--setup", "--address", "--gpus"),
        "--retry-failed",
    },
    "work": {"folder", "--pack", "--device", "--plugin", "--retry-failed"},
    "collect": {"folder", "--follow", "--settle"},
}


def test_no_command_and_no_option_comes_or_goes_unnoticed():
    commands = typer.main.get_command(cli.app).commands
    found = {
        name: {option for parameter in entry.params for option in parameter.opts}
        for name, entry in commands.items()
    }
    assert found == OPTIONS


def test_help_is_whole_and_short_to_ask_for(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    said = command("-h")
    assert (said.code, said.err) == (0, "")
    assert "..." not in said.out.split("Commands:")[1]
    assert "recollect run sweep.toml --out out " in said.out
    assert "recollect run paper:fig1:small --out out --budget 10\n" in command("run", "-h").out
    assert command("--version").out == f"recollect {recollect.__version__}\n"


def test_shells_can_complete_verbs(command, monkeypatch):
    # Else the shell is the one that this process runs under, whichever that is.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    said = command("--show-completion", "bash")
    assert said.code == 0
    assert "_RECOLLECT_COMPLETE=complete_bash" in said.out


def test_dry_run_tells_two_variants_of_a_mixer_apart(command, spec: Path, tmp_path: Path):
    both = '[{name="mamba"}, {name="mamba", init="zoology"}]'
    said = command(
        *("run", spec, "--out", tmp_path / "out", "--dry-run", "--device", "cpu"),
        *("--set", f"sweep.model.mixer={both}"),
    )
    shapes = [line for line in said.out.splitlines() if "mamba" in line]
    assert ["init official" in shapes[0], "init zoology" in shapes[1]] == [True, True]


def test_every_command_and_option_is_explained():
    for name, entry in typer.main.get_command(cli.app).commands.items():
        assert entry.help, name
        for parameter in entry.params:
            assert parameter.help, f"{name} {parameter.name}"
