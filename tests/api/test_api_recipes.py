"""What `plot` shows of several recipes and sizes is what `recollect figure` shows."""

from pathlib import Path

import pytest
from recipes_made import SMALL, changed, recipe_rows
from stores_made import make_store

from recollect import Results

STUDY, PLAIN = recipe_rows("study"), recipe_rows("plain")
SMALLER = [changed(row, SMALL) for row in PLAIN]


@pytest.fixture
def mixed(tmp_path: Path) -> Results:
    make_store(tmp_path / "mixed", [*PLAIN, *STUDY, *SMALLER])
    return Results.load(tmp_path / "mixed")


def caption(results: Results, **options) -> str:
    figure = results.plot(**options)[0].figure
    return " ".join(" ".join(text.get_text() for text in figure.texts).split())


@pytest.mark.parametrize("kind", ["rates", "windows", "curves"])
def test_a_plot_shows_one_recipe_and_size_and_its_caption_says_so(mixed: Results, kind: str):
    text = caption(mixed, kind=kind)
    assert "Recipe: study, vocabulary 8192" in text
    assert "Left out: 4 results of plain; 4 results of a smaller size." in text


def test_where_chooses_what_a_plot_shows(mixed: Results):
    small = caption(mixed.where("scale=small"))
    assert "Recipe: plain, vocabulary 64" in small
    assert "Left out" not in small
    assert "Left out: 4 results of a smaller size." in caption(mixed.where("recipe=plain"))


@pytest.mark.parametrize("recipes", ['["study", "plain"]', "all"])
def test_several_recipes_that_were_asked_for_are_drawn_together(mixed: Results, recipes: str):
    text = caption(mixed.where(f"recipe={recipes}", "scale=full"))
    assert "Recipe: plain or study" in text
    assert "Left out" not in text
    assert len(mixed.where("recipe=all", "scale=all").where("seed=1").plot()) == 2, "two sizes"


def test_of_two_results_each_is_chosen_by_its_own_conditions(mixed: Results):
    text = caption(mixed.where("scale=full"), compare=mixed.where("recipe=plain", "scale=full"))
    assert "Recipe: study or plain" in text
    assert "Left out of mixed: 4 results of plain." in text
    assert text.count("Left out") == 1
