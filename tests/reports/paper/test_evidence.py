"""Stored results as evidence: found at any depth, told apart by size and recipe, counted once."""

from dataclasses import replace

import pytest
from stores_made import make_store
from study_made import study_row, study_rows

from recollect.reports.paper.evidence import (
    StoredResults,
    join_stores,
    load_stores,
    rows_by_recipe,
)
from recollect.spec.recipes import scale_of


def test_stores_are_found_at_any_depth(tmp_path):
    small = [study_row("attention", task={"name": "mqar", "vocabulary": 64})]
    for name in ("b", "a/deep"):
        make_store(tmp_path / name, small)
    (tmp_path / "empty").mkdir()
    assert [store.folder for store in load_stores(tmp_path)] == [
        tmp_path / "a" / "deep",
        tmp_path / "b",
    ]
    assert all(store.is_reduced for store in load_stores(tmp_path))


@pytest.mark.parametrize(
    ("task", "scale"),
    [
        ({"name": "mqar", "vocabulary": 8192}, "full"),
        ({"name": "mqar", "vocabulary": 64}, "small"),
        ({"name": "copying", "alphabet": 26}, "full"),
        ({"name": "copying", "alphabet": 4}, "small"),
        ({"name": "other", "vocabulary": "many"}, "full"),
        ("mqar", "full"),
        (None, "full"),
    ],
)
def test_fewer_tokens_or_letters_than_the_study_s_are_the_small_scale(task, scale):
    assert scale_of({"task": task}) == scale
    row = replace(study_row("attention"), spec={"task": task})
    assert StoredResults("a", [row], {}).is_reduced is (scale == "small")


def test_minutes_are_the_runs_shares_and_a_run_counts_once():
    row = replace(study_row("attention"), wall_s=90.0)
    waiting = replace(row, status="todo", wall_s=None, accuracy=None)
    first, second = StoredResults("a", [waiting], {}), StoredResults("b", [row], {row.run_id: []})
    assert (first.minutes, second.minutes) == (0.0, 1.5)
    assert join_stores([first, second]).rows == [row]
    assert join_stores([second, first]).rows == [row]


def test_whole_recipes_come_before_what_differs_from_one():
    rows = study_rows(("attention",), seeds=(1,), dropout=0.3) + study_rows(("mamba",), seeds=(1,))
    assert list(rows_by_recipe(rows)) == ["plain", "plain but dropout=0.3"]
    assert sum(map(len, rows_by_recipe(rows).values())) == len(rows)


def test_what_a_figure_varies_sets_no_rows_apart():
    rows = [
        row
        for positions in ("none", "learned", "relative")
        for row in study_rows(("mamba",), seeds=(1,), positions=positions)
    ]
    assert len(rows_by_recipe(rows)) == 3
    assert rows_by_recipe(rows, varied=("model.positions",)) == {"plain": rows}
