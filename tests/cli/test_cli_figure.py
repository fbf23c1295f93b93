"""`recollect figure` of folders with several recipes and sizes: what it says and refuses."""

import re
from pathlib import Path

import pytest
from recipes_made import SMALL, changed, recipe_rows
from stores_made import make_store

STUDY, PLAIN = recipe_rows("study"), recipe_rows("plain")
SMALLER = [changed(row, SMALL) for row in PLAIN]
NAMES = ["rates", "windows", "curves", "fig1", "fig2", "fig11"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of folders, one for each recipe and size."""
    for name, rows in (("plain", PLAIN), ("study", STUDY), ("small", SMALLER)):
        make_store(tmp_path / "mine" / name, rows)
    return tmp_path / "mine"


@pytest.mark.parametrize("name", NAMES)
def test_one_line_says_what_is_shown_and_how_to_choose(command, folder, tmp_path, name):
    target = tmp_path / f"{name}.svg"
    said = command("figure", name, folder, "-o", target)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == [
        f"{name}: {target}",
        f"{name} shows the recipe study at the study's size. Left out: 4 results of plain; "
        "4 results of a smaller size. Choose with --where recipe=plain or --where scale=small",
    ]
    for where in (["scale=small"], ["recipe=plain", "scale=full"]):
        options = [word for one in where for word in ("--where", one)]
        said = command("figure", name, folder, "-o", target, *options)
        assert (said.code, said.out, said.err) == (0, f"{name}: {target}\n", "")
        assert "Recipe: plain" in target.read_text()


@pytest.mark.parametrize("name", [*NAMES, "scaling"])
def test_several_recipes_that_were_asked_for_are_drawn_together(command, folder, tmp_path, name):
    wide = [changed(row, {"model.width": 128}) for row in (*STUDY, *PLAIN)]
    make_store(folder / "wide", wide)
    target = tmp_path / f"{name}.svg"
    for recipes in ('["study", "plain"]', "all"):
        options = ("--where", f"recipe={recipes}", "--where", "scale=full")
        said = command("figure", name, folder, "-o", target, *options)
        assert (said.code, said.out, said.err) == (0, f"{name}: {target}\n", "")
        assert re.search("Recipe: (study or plain|plain or study), ", target.read_text())


def test_of_two_folders_each_shows_one_recipe(command, folder, tmp_path):
    make_store(tmp_path / "theirs", [*PLAIN, *SMALLER])
    target = tmp_path / "rates.svg"
    said = command("figure", "rates", folder, "-o", target, "--compare", tmp_path / "theirs")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == [
        f"rates: {target}",
        "rates of mine shows the recipe study at the study's size. Left out: 4 results of plain; "
        "4 results of a smaller size. Choose with --where recipe=plain or --where scale=small",
        "rates of theirs shows runs at the study's size. Left out: 4 results of a smaller size. "
        "Choose with --where scale=small",
    ]
    both = ("--where", "recipe=plain", "--where", "scale=full")
    said = command("figure", "rates", folder, "-o", target, "--compare", tmp_path / "theirs", *both)
    assert said.out == f"rates: {target}\n"


@pytest.mark.parametrize("name", ["rates", "fig1", "table4"])
@pytest.mark.parametrize(
    ("where", "problem"),
    [
        (
            ["recipe=zoology"],
            "--where 'recipe=zoology': NAME shows no run of that recipe in mine;\n",
        ),
        (["scale=big"], "--where 'scale=big': must be full, small or all\n"),
        (["recipe={a=1}"], "--where \"recipe={'a': 1}\": NAME shows no run of that recipe in mine"),
        (["model.width=3"], "--where model.width=3: none of the "),
        (["recipe=plain", "recipe=study"], "--where 'recipe=study': recipe is given twice; write"),
    ],
)
def test_a_wrong_choice_is_refused_and_nothing_is_written(
    command, folder, tmp_path, name, where, problem
):
    target = tmp_path / "figure.svg"
    options = [word for one in where for word in ("--where", one)]
    said = command("figure", name, folder, "-o", target, *options)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"recollect: {problem.replace('NAME', name)}")
    assert len(said.err.splitlines()) <= 3
    assert not target.exists()
