"""Where stores lie: a folder's own, those below it, and none."""

from pathlib import Path

import pytest
from rows_made import make_row
from stores_made import make_store

from recollect.errors import SpecError
from recollect.running.results import RunSet
from recollect.store.joining.folders import find_stores, require_own_store


def test_a_folder_with_a_store_is_itself_and_what_lies_in_it_is_part_of_it(tmp_path: Path):
    make_store(tmp_path / "a", [make_row()])
    make_store(tmp_path / "a" / "checkpoints" / "copy", [make_row(seed=2)])
    assert find_stores([tmp_path / "a"]) == [tmp_path / "a"]


def test_a_folder_of_folders_is_all_stores_below_it_in_the_order_of_names(tmp_path: Path):
    for name in ("b", "a/y", "a/x", ".hidden"):
        make_store(tmp_path / name, [make_row()])
    (tmp_path / "empty").mkdir()
    assert find_stores([tmp_path]) == [tmp_path / name for name in ("a/x", "a/y", "b")]
    assert find_stores([tmp_path / "b", tmp_path]) == [
        tmp_path / name for name in ("b", "a/x", "a/y")
    ]


def test_a_folder_without_any_stays_and_is_refused_by_its_name(tmp_path: Path):
    assert find_stores([tmp_path]) == [tmp_path]
    with pytest.raises(SpecError, match=f"no results in {tmp_path}"):
        RunSet.load_all([tmp_path])


def test_a_link_back_is_not_followed(tmp_path: Path):
    make_store(tmp_path / "a", [make_row()])
    (tmp_path / "around").symlink_to(tmp_path, target_is_directory=True)
    assert find_stores([tmp_path]) == [tmp_path / "a"]


def test_a_verb_for_one_folder_names_those_that_it_may_take(tmp_path: Path):
    require_own_store(tmp_path, "resume")  # without any, opening it is refused
    make_store(tmp_path / "a", [make_row()])
    require_own_store(tmp_path / "a", "resume")
    for name in ("b b", "c"):
        make_store(tmp_path / name, [make_row()])
    with pytest.raises(SpecError) as refused:
        require_own_store(tmp_path, "resume")
    assert str(refused.value).splitlines() == [
        f"{tmp_path}: no results of its own, but folders in it have; name one:",
        f"`recollect resume {tmp_path / 'a'}`",
        f"`recollect resume '{tmp_path / 'b b'}'` (`recollect status {tmp_path}` lists all 3)",
    ]
    with pytest.raises(SpecError, match=f"`recollect inspect {tmp_path / 'a'} best:mamba`"):
        require_own_store(tmp_path, "inspect", "best:mamba")


# ---- read as one ----


def test_equal_results_count_once_and_different_ones_are_told(tmp_path: Path):
    row, other = make_row(seed=1, score=0.9), make_row(seed=2, score=0.5)
    make_store(tmp_path / "a", [row, other])
    make_store(tmp_path / "b", [row])
    assert RunSet.load_all([tmp_path]).conflicts == ()
    assert len(RunSet.load_all([tmp_path]).rows) == 2
    make_store(tmp_path / "c", [make_row(seed=2, score=0.6)])
    results = RunSet.load_all([tmp_path])
    assert len(results.rows) == 2
    assert results.conflicts == (
        f"run {other.run_id} (attention lr=0.001 seed=2): done 0.5000 after 100 steps in "
        f"{tmp_path / 'a'}, which counts, done 0.6000 after 100 steps in {tmp_path / 'c'}",
    )
    assert {row.score for row in results.rows} == {0.9, 0.5}  # the first is taken


def test_a_result_is_taken_before_a_run_that_waits_or_failed(tmp_path: Path):
    make_store(tmp_path / "a", [make_row(score=None, status="todo")])
    make_store(tmp_path / "b", [make_row(score=0.0, status="failed", failure="oom: x")])
    make_store(tmp_path / "c", [make_row(score=0.7)])
    (row,) = RunSet.load_all([tmp_path]).rows
    assert (row.status, row.score) == ("done", 0.7)
    assert RunSet.load_all([tmp_path]).conflicts == ()
