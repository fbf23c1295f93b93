"""Opening a store: any folder, read only too, and what is refused."""

import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from named_runs import planned

from recollect.errors import SpecError
from recollect.store import Store
from recollect.store.database import FILE
from recollect.store.reading import connection


def test_commits_are_synced(store: Store) -> None:
    for pragma, value in (("synchronous", 2), ("journal_mode", "wal"), ("foreign_keys", 1)):
        assert store._read(f"PRAGMA {pragma}") == [(value,)]


@pytest.mark.parametrize("read_only", [True, False])
def test_opening_what_is_not_there_says_how_to_make_it(tmp_path: Path, read_only: bool) -> None:
    with pytest.raises(SpecError) as refusal:
        Store.open(tmp_path / "none", read_only)
    assert (
        str(refusal.value) == f"no results in {tmp_path / 'none'}; run `recollect run "
        f"SPEC --out {tmp_path / 'none'}` first"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_no_store_until_it_is_made_one(tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    with pytest.raises(SpecError, match="no results in"):
        Store.open(tmp_path, read_only=True)
    with Store.create(tmp_path) as store:
        assert store.counts()["todo"] == 0


@pytest.mark.parametrize(
    "name", ["with blanks", "quote'\"", "new\nline", "q?a=b#c%20", "ünï-çødé", "x" * 255]
)
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    with Store.create(tmp_path / name) as store:
        store.plan(planned("a"), "s", "t")
    with Store.open(tmp_path / name, read_only=True) as store:
        assert store.counts()["todo"] == 1
    assert [path.name for path in tmp_path.rglob("*")] == [name, FILE]


def test_a_reader_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    with Store.create(tmp_path) as store:
        store.plan(planned("a"), "s", "t")
    before = (tmp_path / FILE).read_bytes()
    with Store.open(tmp_path, read_only=True) as store:
        assert store.counts()["todo"] == 1
        with pytest.raises(SpecError, match=f"{FILE} cannot be opened or written there"):
            store.note("a", "b")
    assert (tmp_path / FILE).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize("log", ["folded in", "left by a crash"])
def test_a_read_only_folder_can_be_read(log: str) -> None:
    with tempfile.TemporaryDirectory() as name:  # not tmp_path: an ordinary user must get in
        folder = Path(name)
        store = Store.create(folder)
        store.plan(planned("a", "b"), "s", "t")
        if log == "folded in":
            store.close()
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        code = """if 1:
            import os, sys, pathlib, recollect.store
            if os.getuid() == 0:
                os.setuid(65534)  # the superuser may write anywhere
            with recollect.store.Store.open(pathlib.Path(sys.argv[1]), read_only=True) as store:
                print(store.counts()["todo"])
        """
        assert subprocess.check_output([sys.executable, "-c", code, name], text=True).strip() == "2"
        folder.chmod(0o755)
        store.close()


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(SpecError, match="choose a folder you may write to"):
            Store.create(folder)


def test_the_store_needs_neither_torch_nor_pydantic() -> None:
    code = (
        "import sys, recollect.store; print([m for m in ('torch', 'pydantic', 'numpy') if m in "
        "sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_journal_that_another_process_removes_meanwhile_is_no_irregular_file(tmp_path: Path):
    """Two processes may create one store at once; SQLite's journal is there for moments."""
    path, over = tmp_path / "recollect.db", threading.Event()

    def come_and_go() -> None:
        journal = tmp_path / "recollect.db-journal"
        while not over.is_set():
            journal.touch()
            journal.unlink()

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        for _ in range(5_000):
            connection._require_regular(path)
    finally:
        over.set()
        other.join()
