"""Labels of rows at their edges: rows from anywhere, long values, reduced runs."""

import pytest
from test_recipes import changed, made

from recollect.spec.recipes import compared_keys, recipe_of


def test_a_row_from_anywhere_may_have_a_batch_of_more_rows_than_there_are():
    spec = changed(made("study"), "train.batch", 200_000)
    epochs = spec["train"]["steps"]
    assert recipe_of(spec) == f"study but batch=200000, epochs={epochs}"


@pytest.mark.parametrize("letters", [53, 54])
def test_a_difference_has_sixty_letters_at_most(letters):
    whole = f"filler {'x' * letters}"
    shown = whole if letters == 53 else f"{whole[:59]}…"
    assert recipe_of(changed(made("study"), "task.filler", "x" * letters)) == f"study but {shown}"


def test_keys_that_a_reduced_run_may_choose_are_not_compared():
    full = made("study")
    reduced = changed(full, "task.vocabulary", 64)
    chosen = {"task.data", "model.positions", "train.warmup", "train.precision"}
    assert compared_keys(full) - compared_keys(reduced) == chosen
    assert "train.lr" not in compared_keys(full)
