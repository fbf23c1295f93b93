"""The rows that a picture of any rows shows: those that were asked for, of one scale, and of one
recipe if there are several whole ones.
"""

import pytest
from pictures_made import draw, words
from recipes_made import RATES, SMALL, changed, recipe_rows, source_of, without_result

from recollect.errors import SpecError
from recollect.reports.pictures import (
    KINDS,
    Choice,
    choose_for_picture,
    choose_rows,
    keys_of_several,
    of_one_recipe,
)
from recollect.rows import RunRow

STUDY, PLAIN = recipe_rows("study"), recipe_rows("plain")
SMALLER = [changed(row, SMALL) for row in PLAIN]
DROPPED = [changed(row, {"model.dropout": 0.3}) for row in PLAIN]


def chosen(*parts: list[RunRow], where: tuple[str, ...] = ()) -> Choice:
    return choose_for_picture("rates", source_of(*parts), where)


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_shows_one_whole_recipe_and_scale_and_its_caption_says_what_is_left_out(kind):
    wide = [[changed(row, {"model.width": 128}) for row in rows] for rows in (STUDY, PLAIN)]
    every = source_of(PLAIN, SMALLER, STUDY, DROPPED, *wide)
    figure = draw(kind, every)
    text = " ".join(words(figure).split())
    assert "Recipe: study, vocabulary 8192" in text
    assert "Left out: 8 results of plain; 4 results of plain but dropout=0.3; " in text
    assert "; 4 results of a smaller size." in text
    assert "Left out" not in words(draw(kind, source_of(STUDY, wide[0])))
    asked = draw(kind, every, where=("recipe=plain", "scale=full"))
    assert "Recipe: plain" in words(asked)
    assert "Left out" not in words(asked)


def test_the_line_says_what_is_shown_left_out_and_how_to_choose():
    choice = chosen(PLAIN, SMALLER, STUDY)
    assert choice.source.rows == STUDY
    assert choice.line("rates") == (
        "rates shows the recipe study at the study's size. Left out: 4 results of plain; "
        "4 results of a smaller size. Choose with --where recipe=plain or --where scale=small"
    )
    assert chosen(STUDY).line("rates") == ""


def test_what_a_sweep_changed_in_one_recipe_is_shown_beside_it():
    assert chosen(PLAIN, DROPPED).source.rows == PLAIN + DROPPED
    small = [changed(row, SMALL) for row in (*PLAIN, *DROPPED)]
    choice = chosen(small)
    assert (choice.source.rows, choice.line("rates")) == (small, "")
    choice = chosen(PLAIN, DROPPED, SMALLER)
    assert choice.source.rows == PLAIN + DROPPED
    assert choice.line("rates").startswith("rates shows runs at the study's size. Left out: 4 ")
    nothing_yet = without_result(STUDY)
    assert chosen(PLAIN, nothing_yet).source.rows == PLAIN + nothing_yet, "planned, and named"


def test_two_mixers_come_before_one_and_then_the_study_s_size_and_recipe():
    assert chosen(STUDY[:2], PLAIN).source.rows == PLAIN
    assert chosen(STUDY[:2], SMALLER).source.rows == SMALLER
    more = recipe_rows("plain", rates=(*RATES, 3e-3))
    assert chosen(more, STUDY, [changed(row, SMALL) for row in more]).source.rows == STUDY
    assert chosen(more, recipe_rows("zoology")).source.rows == more


@pytest.mark.parametrize("key", ["recipe", "scale"])
def test_a_list_or_all_is_shown_together(key):
    one, other = (STUDY, PLAIN) if key == "recipe" else (PLAIN, SMALLER)
    names = '["study", "plain"]' if key == "recipe" else '["full", "small"]'
    for value in (names, "all"):
        choice = chosen(one, other, where=(f"{key}={value}",))
        assert (choice.source.rows, choice.line("rates")) == (one + other, "")
    assert chosen(one, other).source.rows == one


def test_the_keys_of_several_values():
    where = ("recipe=all", "scale=full", "seed=[1, 2]", "model.mixer=mamba")
    assert keys_of_several(where) == {"recipe", "seed"}
    asked = Choice(source_of(PLAIN, STUDY), keys_of_several(['recipe=["study", "plain"]']))
    assert of_one_recipe(asked).source.rows == PLAIN + STUDY


def test_all_selects_every_row():
    rows = PLAIN + STUDY + SMALLER
    assert choose_rows(rows, ["recipe=all", "scale=all"]) == rows
    assert choose_rows(rows, ["scale=small"]) == SMALLER
    assert choose_rows(rows, ["recipe=plain", "scale=full"]) == PLAIN


def test_without_a_result_nothing_is_left_out_and_the_refusal_counts_all():
    planned = without_result(STUDY), without_result(PLAIN, "failed")
    assert chosen(*planned).source == source_of(*planned)
    with pytest.raises(SpecError, match="mine: none of 8 runs has a result yet"):
        draw("rates", source_of(*planned))
    with pytest.raises(SpecError, match="mine: no run to draw"):
        draw("rates", source_of([]), where=("model.width=3",))


def test_a_key_that_is_given_twice_is_refused_with_the_list_to_write():
    with pytest.raises(SpecError) as refused:
        chosen(STUDY, PLAIN, where=("recipe=plain", "recipe=study"))
    assert str(refused.value) == (
        "--where 'recipe=study': recipe is given twice; write several values as a list,\n"
        '--where \'recipe=["plain", "study"]\''
    )
    with pytest.raises(SpecError, match=r"model\.mixer\.name is given twice"):
        chosen(STUDY, where=("model.mixer=mamba", "model.mixer.name=[attention]"))


def test_of_two_folders_each_shows_one_recipe_and_the_caption_names_them():
    mine, theirs = source_of(PLAIN, STUDY), source_of(PLAIN, SMALLER, name="theirs")
    figure = draw("rates", mine, theirs)
    text = " ".join(words(figure).split())
    assert "Recipe: study or plain" in text
    assert "Left out of mine: 4 results of plain. " in text
    assert "Left out of theirs: 4 results of a smaller size." in text


def test_names_of_recipes_are_shown_as_they_are():
    hostile = "$\\frac{1}{0}$ _x <b>"
    rows = [changed(row, {"train.decay": hostile}) for row in PLAIN]
    figure = draw("rates", source_of(STUDY, PLAIN, rows))
    figure.draw_without_rendering()
    assert "plain but decay $\\frac{1}{0}$ _x <b>" in words(figure)
