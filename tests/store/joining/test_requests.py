"""How sweeps are trained, in stores that are merged: taken over with what is new, or damaged."""

from pathlib import Path

import pytest
from rows_made import make_row
from stores_made import make_store, plan

from recollect.errors import noticing_damage
from recollect.running.planning.order import remember_search, searched_sweeps
from recollect.store import Store
from recollect.store.checking.folder import check_folder
from recollect.store.joining.merging import merge
from recollect.store.schema import SEARCH_ENDED, TRAINED_AS


def test_a_sweep_that_is_new_is_trained_as_it_was(tmp_path: Path):
    rows = [make_row(seed=seed, score=None, status="todo") for seed in range(3)]
    for folder in "ab":
        make_store(tmp_path / folder, rows[:1], "common")
        with Store.open(tmp_path / folder) as store:
            plan(store, rows[1:], f"of {folder}")
    with Store.open(tmp_path / "a") as store:
        remember_search(store, ["common", "of a"], "edges")
    with Store.open(tmp_path / "b") as store:
        remember_search(store, ["common"], "all")
        remember_search(store, ["of b"], "best")
    merge(tmp_path / "a", [tmp_path / "b"])
    merge(tmp_path / "new", [tmp_path / "b", tmp_path / "a"])
    with Store.open(tmp_path / "a", read_only=True) as store:
        assert searched_sweeps(store) == {"common": "edges", "of a": "edges", "of b": "best"}
    with Store.open(tmp_path / "new", read_only=True) as store:
        assert searched_sweeps(store) == {"of a": "edges", "of b": "best"}, "the first one counts"


def test_a_search_that_has_ended_has_ended_in_the_copy(tmp_path: Path):
    make_store(tmp_path / "a", [make_row()], "over")
    with Store.open(tmp_path / "a") as store:
        remember_search(store, ["over"], "best")
        store.set_meta(SEARCH_ENDED, '["over"]')
    merge(tmp_path / "b", [tmp_path / "a"])
    with Store.open(tmp_path / "b", read_only=True) as store:
        assert store.names(SEARCH_ENDED) == ["over"]


@pytest.mark.parametrize("value", ['["over"', "{}", "[1]", "over"])
def test_a_damaged_list_of_sweeps_is_named_and_left_out(tmp_path: Path, value: str):
    make_store(tmp_path / "a", [make_row()], "over")
    with Store.open(tmp_path / "a") as store:
        store.set_meta(TRAINED_AS["best"], value)
    [finding] = check_folder(tmp_path / "a").findings
    assert "setting" in finding
    assert "must be a list of names" in finding or "is not a list of names" in finding
    with noticing_damage() as damage, Store.open(tmp_path / "a", read_only=True) as store:
        assert searched_sweeps(store) == {}
    assert len(damage) == 1
    with noticing_damage() as damage:
        merge(tmp_path / "b", [tmp_path / "a"])
    assert damage
