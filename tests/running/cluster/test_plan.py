"""The plan: written once, checked when it is read."""

from pathlib import Path

import pytest
from cluster_made import make_plan, name

from recollect.errors import SpecError, StoreError
from recollect.running.cluster.plan import FILE, is_planned, read_plan
from recollect.store import Store


def test_what_was_written_is_read(tmp_path: Path):
    plan = make_plan(tmp_path / "out", packs=3, runs=2)
    assert read_plan(tmp_path / "out") == plan
    assert plan.runs == 6
    assert [run.run_id for run in plan.read_pack(2)] == [name(2, 0), name(2, 1)]
    assert is_planned(tmp_path / "out")


def test_equal_content_has_an_equal_id(tmp_path: Path):
    first, second = make_plan(tmp_path / "a"), make_plan(tmp_path / "b")
    other = make_plan(tmp_path / "c", runs=4)
    assert first.plan_id == second.plan_id != other.plan_id


def test_a_folder_is_planned_once(tmp_path: Path):
    make_plan(tmp_path / "out")
    before = (tmp_path / "out" / FILE).read_bytes()
    with pytest.raises(SpecError, match=r"holds plan\.recollect already; give another --out"):
        make_plan(tmp_path / "out", packs=5)
    assert (tmp_path / "out" / FILE).read_bytes() == before


def test_a_folder_with_a_store_is_not_planned(tmp_path: Path):
    Store.create(tmp_path / "out").close()
    with pytest.raises(SpecError, match=r"holds recollect\.db already"):
        make_plan(tmp_path / "out")


def test_no_plan_is_a_refusal(tmp_path: Path):
    with pytest.raises(SpecError, match="`recollect submit SPEC --out"):
        read_plan(tmp_path)


def test_a_pack_that_is_not_there(tmp_path: Path):
    with pytest.raises(SpecError, match="--pack 7: the plan has packs 0 to 1"):
        make_plan(tmp_path / "out").read_pack(7)


def read_all(folder: Path) -> None:
    plan = read_plan(folder)
    for index in range(len(plan.packs)):
        plan.read_pack(index)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999])
def test_a_flipped_bit_is_found(tmp_path: Path, share: float):
    plan = make_plan(tmp_path / "out")
    path = tmp_path / "out" / FILE
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= 4
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        read_all(plan.folder)
