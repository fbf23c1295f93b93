"""What the README says is true: its mixer is the one in examples/ and trains, its specification
parses, its links lead somewhere. The tree in CONTRIBUTING.md is the real one.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from recollect.cli.app import app
from recollect.mixers.registry import MIXERS
from recollect.spec.sweep import parse_sweep, read_sweep
from recollect.store import Store

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text().replace("\\\n", "")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def _blocks(language: str, page: str = README) -> list[str]:
    return [
        text
        for tag, text in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        if tag == language
    ]


def test_the_example_mixer_is_the_file_in_examples_and_short():
    (code,) = _blocks("python")
    assert code.strip() in (ROOT / "examples/my_mixer.py").read_text()
    body = code[code.index("@recollect.mixer") :]
    assert len(body.strip().splitlines()) <= 20


def test_the_example_mixer_trains_by_the_readmes_command(tmp_path: Path):
    (command,) = re.findall(
        r"^recollect (run examples/mqar.toml --plugin .*)$", README, re.MULTILINE
    )
    words = [
        word.strip("'") for word in re.findall(r"'[^']*'|\S+", command.replace("--out out", ""))
    ]
    words += ["--out", str(tmp_path / "out")]
    for short in (
        "train.steps=4",
        "train.evaluations=2",
        "sweep.seed=[42]",
        "sweep.train.lr=[1e-3]",
    ):
        words += ["--set", short]
    run = subprocess.run(
        [sys.executable, "-m", "recollect", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    with Store.open(tmp_path / "out", read_only=True) as store:
        rows = store.rows()
    assert {row.spec["model"]["mixer"]["name"]: row.status for row in rows} == {
        "attention": "done",
        "leaky": "done",
    }


def test_the_specification_parses():
    (text,) = _blocks("toml")
    assert len(parse_sweep(text).runs) == 2 * 13 * 3


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.stem
)
def test_every_example_parses(path: Path):
    assert read_sweep(path).runs


def test_the_tree_is_the_real_one():
    (tree,) = (block for block in _blocks("", CONTRIBUTING) if block.startswith("recollect/\n"))
    named = re.findall(r"^  ([\w/.]+)", tree, re.MULTILINE)
    there = [
        path.name + "/" * path.is_dir()
        for path in (ROOT / "recollect").iterdir()
        if not path.name.startswith("__") and path.suffix != ".typed"
    ]
    assert sorted(named) == sorted(there)


def test_symbolic_links_point_somewhere():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    links = [name for name in listed.stdout.splitlines() if (ROOT / name).is_symlink()]
    assert not [name for name in links if not (ROOT / name).exists()]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_links_exist(page: str):
    for target in re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text()):
        assert (ROOT / target).exists(), target


def test_every_command_of_the_readme_exists():
    named = {
        verb
        for block in _blocks("")
        for verbs in re.findall(r"^recollect ((?:[a-z]+ · )+[a-z]+|[a-z]+)", block, re.MULTILINE)
        for verb in verbs.split(" · ")
    }
    assert len(named) > 10
    assert named <= set(typer.main.get_group(app).commands)


def test_the_zoo_has_every_mixer():
    assert {run.model.mixer.name for run in read_sweep(ROOT / "examples/zoo.toml").runs} >= set(
        MIXERS
    )
