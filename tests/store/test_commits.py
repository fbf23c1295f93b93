"""A database that lacks commits of its folder is recognised, told and noted, once."""

import os
import shutil
from pathlib import Path

import pytest

from recollect.store import PlannedRun, Store
from recollect.store.commits import SUFFIX
from recollect.store.database import FILE

MARK = f"{FILE}{SUFFIX}"
LOST = "lacks the last 3 commits that this folder has seen"


def run(name: str) -> PlannedRun:
    return PlannedRun(name, "{}", "accuracy", 0.5)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Of a folder in use, without its log: three commits are in there alone."""
    live, copy = tmp_path / "live", tmp_path / "copy"
    copy.mkdir()
    with Store.create(live) as store:
        store.plan([run("a")], "sweep", "")
        for name in "bcd":
            store.set_meta(name, "only in the log")
        for path in live.iterdir():
            if path.name not in (f"{FILE}-wal", f"{FILE}-shm"):
                shutil.copyfile(path, copy / path.name)
    return copy


def test_a_copy_without_its_log_is_recognised(copy: Path) -> None:
    for _ in range(2):  # whoever only reads changes nothing
        with Store.open(copy, read_only=True) as store:
            assert [row.run_id for row in store.rows()] == ["a"], "what is planned is not lost"
            assert [sweep.name for sweep in store.sweeps()] == ["sweep"]
            assert store.meta("b") is None
            (problem,) = store.check()
            assert LOST in problem
    with Store.open(copy) as store:
        (note,) = store.notes()
        assert note.kind == "log"
        assert LOST in note.text
    for way in (Store.open, Store.create):
        with way(copy) as store:
            assert store.lost_commits == ""
            assert store.check() == []
            assert len(store.notes()) == 1, "noted once"


def test_a_folder_in_use_lacks_nothing_and_one_at_rest_has_no_mark(tmp_path: Path) -> None:
    with Store.create(tmp_path) as store, Store.open(tmp_path) as other:
        store.plan([run("a")], "sweep", "")
        other.plan([run("b")], "sweep", "")
        for read_only in (True, False):
            with Store.open(tmp_path, read_only) as reader:
                assert reader.check() == []
        assert (tmp_path / MARK).exists()
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize(
    "kind", ["absent", "another store's", "nonsense", "pipe", "folder", "link"]
)
def test_what_is_no_mark_says_nothing_and_hurts_nobody(
    copy: Path, tmp_path: Path, kind: str
) -> None:
    mark = copy / MARK
    said = mark.read_text()
    mark.unlink()
    (tmp_path / "precious").write_text("mine")
    if kind == "another store's":
        mark.write_text(said.replace(said[:16], "0" * 16))
    elif kind == "nonsense":
        mark.write_bytes(os.urandom(100))
    elif kind == "pipe":
        os.mkfifo(mark)
    elif kind == "folder":
        mark.mkdir()
    elif kind == "link":
        mark.symlink_to(tmp_path / "precious")
    with Store.open(copy) as store:
        store.plan([run("z")], "sweep", "")
        assert store.check() == []
        assert store.notes() == []
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_mark_that_lags_is_no_loss(copy: Path) -> None:
    """A process may be killed between a commit and its mark."""
    name, count = (copy / MARK).read_text().split()
    (copy / MARK).write_text(f"{name} {int(count) - 3:020d}\n")
    with Store.open(copy) as store:
        assert store.check() == []
        assert store.notes() == []
