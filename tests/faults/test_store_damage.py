"""A damaged, truncated, robbed or foreign database file:
named, never touched, and read as far as it can be.
"""

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import store_workers
from harness import child, preload
from store_workers import measured, planned

from recollect.errors import StoreError
from recollect.rows import RunRow
from recollect.store import Result, Store
from recollect.store.database import FILE
from recollect.store.ownership import this_process
from recollect.store.salvage import salvage
from recollect.store.schema import VERSION

preload("store_workers")


def filled(folder: Path, runs: int = 300) -> list[RunRow]:
    """A folder of finished runs."""
    run_ids = [f"{serial:04d}" for serial in range(runs)]
    with Store.create(folder) as store:
        store.plan(planned(run_ids), "filled", "source")
        for start in range(0, runs, 50):
            claims = store.claim(run_ids[start : start + 50], this_process(), 60)
            store.finish(
                Result(run_id, attempt, "done", 2, 0.5, measured(run_id, 2))
                for run_id, attempt in claims.items()
            )
        return store.rows()


def test_a_truncated_log_opens_as_an_earlier_moment(tmp_path: Path, kill_seed: int) -> None:
    draw, source = random.Random(kill_seed), tmp_path / "source"
    with Store.create(source) as store:
        store.plan(planned([f"{serial:03d}" for serial in range(100)]), "s", "source")
        for serial in range(100):
            claims = store.claim([f"{serial:03d}"], this_process(), 60)
            store.finish(
                Result(run_id, attempt, "done", 2, 0.5, measured(run_id, 2))
                for run_id, attempt in claims.items()
            )
        copied = tmp_path / "copied"
        shutil.copytree(source, copied)  # as a power cut would leave it: the log not yet folded in
    size = (copied / f"{FILE}-wal").stat().st_size
    numbers_done = set()
    for trial in range(200):
        folder = tmp_path / "cut"
        shutil.copytree(copied, folder)
        (folder / f"{FILE}-shm").unlink()
        os.truncate(folder / f"{FILE}-wal", draw.randrange(size))
        with Store.open(folder) as store:
            done = [row.run_id for row in store.rows() if row.status == "done"]
            assert done == [f"{serial:03d}" for serial in range(len(done))], (
                "not a moment that ever was"
            )
            if trial % 20 == 0:  # what is there is sound; that something is lost is noticed
                assert all("lacks the last" in finding for finding in store.check())
        numbers_done.add(len(done))
        shutil.rmtree(folder)
    assert len(numbers_done) > 10


def complaint(folder: Path) -> str:
    """What the store says about a damaged file, as a refusal or as the outcome of a check."""
    try:
        with Store.open(folder, read_only=True) as store:
            return "\n".join(store.check())
    except StoreError as error:
        names_all = str(folder / FILE) in str(
            error
        ) and f"recollect export {folder} --salvage" in str(error)
        return str(error) if names_all and error.exit_code == 3 else ""


def root_of_runs(folder: Path) -> int:
    connection = sqlite3.connect(folder / FILE)
    (root,) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'runs'"
    ).fetchone()
    connection.close()
    return root


def test_a_damaged_page_is_named_and_the_rest_salvaged(tmp_path: Path, kill_seed: int) -> None:
    draw = random.Random(kill_seed)
    truth = {row.run_id: row for row in filled(tmp_path / "good")}
    sound = (tmp_path / "good" / FILE).read_bytes()
    way_in = root_of_runs(tmp_path / "good")  # the one page without which no run can be reached
    best = 0
    for page in range(len(sound) // 4096):
        folder = tmp_path / f"page{page}"
        folder.mkdir()
        damaged = sound[: page * 4096] + draw.randbytes(4096) + sound[(page + 1) * 4096 :]
        (folder / FILE).write_bytes(damaged)
        assert complaint(folder)
        rows, problems = salvage(folder)
        for row in rows:
            without_curve = row.accuracy is None
            assert without_curve or row == truth[row.run_id]
            assert row.spec == truth[row.run_id].spec
        assert problems or len(rows) == len(truth)  # a bad index page costs no row
        assert len({row.run_id for row in rows}) == len(rows)
        assert len(rows) > len(truth) // 2 or (
            page + 1 == way_in and "sqlite3 recollect.db .recover" in problems[-1]
        )
        best = max(best, len(rows) if problems else 0)
        assert (folder / FILE).read_bytes() == damaged, "reading must not change a damaged file"
        assert [path.name for path in folder.iterdir()] == [FILE]
    assert best > len(truth) // 2


def test_a_deleted_log_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with child(tmp_path / "journal", store_workers.write_for_ever, folder) as writer:
        writer.wait_for("20-0 20-1 20-2 20-3")
        writer.kill()
    (folder / f"{FILE}-wal").unlink()
    with Store.open(folder) as store:
        assert any("-wal was removed" in problem for problem in store.check())
    with Store.open(folder) as store:
        assert store.check() == []


def foreign_text(path: Path) -> None:
    path.write_text("my shopping list, much older than this program\n" * 40)


def foreign_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE runs (run_id TEXT)")
    connection.commit()
    connection.close()


def newer_database(path: Path) -> None:
    Store.create(path.parent).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (foreign_text, "damaged (file is not a database)"),
        (foreign_database, "is a database of another program"),
        (
            newer_database,
            f"written by a newer recollect (schema {VERSION + 1}, this one knows {VERSION}); "
            "upgrade",
        ),
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_untouched(
    tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    path = tmp_path / FILE
    make(path)
    before = path.read_bytes()
    for way in (Store.create, Store.open, lambda folder: Store.open(folder, read_only=True)):
        with pytest.raises(StoreError) as refusal:
            way(tmp_path)
        assert words in str(refusal.value)
        assert str(path) in str(refusal.value)
        assert len(str(refusal.value).splitlines()) <= 3
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == [FILE]
