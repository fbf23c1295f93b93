"""What the command line offers: the list of all options, frozen; help, version."""

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest
import typer

import recollect
from recollect.cli import app as cli
from recollect.cli.options import as_path


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
        "--allow-drift",
        "--dry-run",
    },
    "resume": {
        *("folder", "--device", "--plugin", "--budget", "--search", "--workers"),
        *("--retry-failed", "--allow-drift"),
    },
    "status": {"folder"},
    "check": {"folder", "--plugin"},
    "unplan": {"folder", "sweep", "--where"},
    "merge": {"into", "others"},
    "report": {"folders", "-o", "--output"},
    "watch": {"folders", "--port", "--token"},
    "inspect": {"folder", "run", "--again", "--yes", "--untrained", "--device", "--plugin"},
    "figure": {
        *("name", "folders", "-o", "--output", "--band", "--size", "--title"),
        *("--caption", "--compare", "--where", "--tau", "--against"),
    },
    "export": {
        *("folder", "--format", "-o", "--output", "--curves", "--salvage"),
        *("--to", "--project", "--license"),
    },
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
        *("--retry-failed", "--sbatch"),
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


def test_every_command_and_option_is_explained():
    for name, entry in typer.main.get_command(cli.app).commands.items():
        assert entry.help, name
        for parameter in entry.params:
            assert parameter.help, f"{name} {parameter.name}"


def test_every_path_refuses_an_empty_text():
    """An unset variable must not mean this folder."""
    paths = 0
    for name, entry in typer.main.get_command(cli.app).commands.items():
        hints = get_type_hints(inspect.unwrap(entry.callback), include_extras=True)
        for parameter, hint in hints.items():
            if get_origin(hint) is not Annotated:
                continue
            kind, asked, *_ = get_args(hint)
            if Path in (kind, *get_args(kind)):
                assert asked.parser is as_path, f"{name} {parameter}"
                paths += 1
    assert paths > 30


@pytest.mark.parametrize(
    "words", [("run", "m.toml", "--out", ""), ("status", ""), ("report", "out", "-o", "")]
)
def test_an_empty_text_is_no_path(command, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    said = command(*words)
    assert (said.code, said.out) == (2, "")
    assert "'' is no path; this folder is '.'; see `recollect " in said.err
    assert list(tmp_path.iterdir()) == []
