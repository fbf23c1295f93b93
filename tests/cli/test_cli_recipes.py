"""Recipes through the command line: listed, printed, chosen, and seen in what was trained."""

import csv
import io
from pathlib import Path

import pytest

from recollect.spec.recipes import RECIPES
from recollect.store import Store

SPEC = """
task = { name = "mqar", vocabulary = 64, length = 8, pairs = 2, data = "fresh", test_rows = 16 }
model = { mixer = "mamba", width = 8, depth = 1 }
train = { steps = 2, batch = 8 }
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    return path


def trained(command, spec: Path, out: Path, *options: str) -> dict:
    said = command("run", spec, *options, "--out", out, "--device", "cpu")
    assert (said.code, said.err) == (0, "")
    with Store.open(out, read_only=True) as store:
        (row,) = store.rows()
    return row.spec


def test_recipes_are_listed_and_printed(command):
    lines = command("recipes").out.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == list(RECIPES)
    for name, recipe in RECIPES.items():
        assert command("recipes", name).out == recipe.text
    said = command("recipes", "studi")
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "recollect: recipe = 'studi': must be one of study, zoology, plain; `recollect recipes` "
        "explains them\n"
    )


def test_a_file_is_untouched_unless_a_recipe_is_asked(command, spec, tmp_path):
    own = trained(command, spec, tmp_path / "own")
    assert (own["model"]["block"], own["task"]["vocabulary_split"]) == ("mixer", "shared")
    study = trained(command, spec, tmp_path / "study", "--recipe", "study")
    assert (study["model"]["block"], study["task"]["vocabulary_split"]) == ("mixer+mlp", "halves")
    assert study["train"]["steps"] == 2
    spec.write_text('recipe = "zoology"\n' + SPEC)
    zoology = trained(command, spec, tmp_path / "zoology")
    assert (zoology["model"]["block"], zoology["train"]["precision"]) == ("mixer", "fp32")


def test_rows_say_their_recipe(command, spec, tmp_path):
    out = tmp_path / "out"
    trained(command, spec, out, "--recipe", "study", "--set", "model.dropout=0")
    assert command("status", out).out.splitlines()[1] == "recipes: study but dropout=0 1"
    (row,) = csv.DictReader(io.StringIO(command("export", out).out))
    assert row["recipe"] == "study but dropout=0"


def test_a_dry_run_says_the_recipes(command, spec, tmp_path):
    with spec.open("a") as file:
        file.write("[sweep]\nseed = [1, 2, 3]\n[[sweep.variant]]\nmodel.dropout = [0.0]\n")
    said = command("run", spec, "--recipe", "study", "--dry-run", "--out", tmp_path / "out")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[-1] == "recipes: study 3; study but dropout=0 3"
    assert not (tmp_path / "out").exists()


def test_an_unknown_recipe_is_refused_and_writes_nothing(command, spec, tmp_path):
    said = command("run", spec, "--recipe", "own", "--out", tmp_path / "out")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("recollect: recipe = 'own': must be one of study, zoology, plain")
    assert not (tmp_path / "out").exists()


def test_a_preset_of_a_task_that_the_recipe_does_not_cover_is_refused(command, tmp_path):
    said = command("run", "paper:fig5:small", "--recipe", "zoology", "--out", tmp_path / "out")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("recollect: recipe zoology covers mqar and recall, not copying; use")
