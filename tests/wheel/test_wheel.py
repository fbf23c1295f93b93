"""The wheel, built here, installed into an environment of its own and used in a folder far from the
repository: what the package needs of its files is in it.

The environment lies over this one, so that torch need not be installed again.
"""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from overlay import make_overlay

import recollect

ROOT = Path(__file__).parents[2]
Recollect = Callable[..., str]
SWEEP = """
recipe = "plain"
[task]
name = "mqar"
vocabulary = 32
length = 16
train_rows = 64
test_rows = 32
[model]
mixer = "attention"
width = 16
[train]
batch = 32
steps = 4
evaluations = 2
[sweep]
train.lr = [1e-3, 1e-2]
"""


def run(*words: object, cwd: Path) -> str:
    """Standard output of a program that must succeed, in a folder that is not the repository."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    ended = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=clean, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="session")
def wheel(place: Path) -> Path:
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", "dist", ROOT, cwd=place)
    (built,) = (place / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="session")
def python(wheel: Path, place: Path) -> Path:
    """Of the environment that has the wheel."""
    found = make_overlay(place / "venv")
    run(found, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=place)
    return found


@pytest.fixture(scope="session")
def installed(python: Path, place: Path) -> Recollect:
    return lambda *words: run(python.with_name("recollect"), *words, cwd=place)


@pytest.fixture(scope="session")
def out(installed: Recollect, place: Path) -> Path:
    """A tiny sweep, filled in by a packaged recipe."""
    (place / "tiny.toml").write_text(SWEEP)
    said = installed("run", "tiny.toml", "--out", "out", "--device", "cpu")
    assert "2 runs, 2 new" in said
    return place / "out"


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel):
    listed = subprocess.run(
        ["git", "ls-files", "recollect"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == {name for name in listed if not (ROOT / name).is_symlink()}
    assert {"recollect/py.typed", "recollect/reports/page/page.html"} <= names


def test_it_is_the_installed_package_that_runs(python, place):
    said = run(python, "-c", "import recollect; print(recollect.__file__)", cwd=place)
    assert Path(said.strip()).is_relative_to(place / "venv")


def test_what_is_there_is_told_from_packaged_files(installed):
    assert installed("--version") == f"recollect {recollect.__version__}\n"
    assert "fig1" in installed("presets")
    assert "[sweep]" in installed("presets", "fig1:small")
    assert "gated_delta_net" in installed("mixers")
    assert "ngram_lookup" in installed("tasks")
    assert "zoology" in installed("recipes")


def test_a_sweep_is_trained_and_told(installed, out):
    assert "2 planned = 2 done" in installed("status", out)
    assert len(json.loads(installed("export", out, "--format", "json", "--curves"))) == 2
    assert "not enough data" in installed("claims", out)


def test_pictures_and_the_page_are_made(installed, out, place):
    for name in ("fig1", "rates"):
        installed("figure", name, out, "-o", f"{name}.svg")
        assert "<svg" in (place / f"{name}.svg").read_text()
    installed("report", out, "-o", "page.html")
    page = (place / "page.html").read_text()
    assert "Plotly" in page
    assert re.search(r"<script[^>]*src=", page) is None


def test_a_card_is_told_with_its_stored_baselines(installed):
    said = installed("score", "mamba", "--dry-run", "--device", "cpu")
    assert "mamba" in said
