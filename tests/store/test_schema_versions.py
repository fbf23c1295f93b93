"""Stores of every version: what each began with, how an older one is read and brought up to date.

fixtures/6d0e802.db was written by commit 6d0e802 with version 1 of the schema: two runs done, one
diverged, one failed, one running with a point of its curve, one todo.
"""

import hashlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from recollect.errors import StoreError
from recollect.rows import Evaluation
from recollect.store import PlannedRun, Result, Store
from recollect.store.database import FILE
from recollect.store.ownership import this_process
from recollect.store.reading.checksums import register
from recollect.store.salvage import salvage
from recollect.store.schema import VERSION, statements

OLD = Path(__file__).parent / "fixtures" / "6d0e802.db"
PAGE = 4096
TEXTS = {
    1: "1ac047529fea60e1",
    2: "c074c5cab0cc8aa9",
    3: "01733b348237d53e",
    4: "01733b348237d53e",
    5: "01733b348237d53e",
    6: "379e521cbb287e25",
}  # digests of what each version begins with


def old_store(folder: Path) -> Path:
    folder.mkdir()
    shutil.copyfile(OLD, folder / FILE)
    return folder


def begun(path: Path, version: int) -> sqlite3.Connection:
    """An empty store as a program of that version makes it."""
    connection = sqlite3.connect(path, isolation_level=None)
    register(connection)
    for statement in statements(version=version):
        connection.execute(statement)
    return connection


def contents(path: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY rowid").fetchall()
    connection.close()
    return found


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_the_text_of_the_tables_does_not_change(tmp_path: Path, version: int) -> None:
    """Salvage gives a damaged file the pages of a new one, which hold the text of the statements:
    not even a comment inside them may change without a new version.
    """
    begun(tmp_path / "new", version).close()
    texts = [(sql,) for _, sql in contents(tmp_path / "new")]
    assert hashlib.sha256(repr(texts).encode()).hexdigest()[:16] == TEXTS[version]
    if version == 1:
        assert contents(tmp_path / "new") == contents(OLD)


def test_an_old_store_is_read_without_being_written_to(tmp_path: Path) -> None:
    folder = old_store(tmp_path / "old")
    with Store.open(folder, read_only=True) as store:
        rows, curves = store.rows(), store.curves()
        assert store.version == 1
    statuses = [row.status for row in rows]
    assert statuses == ["done", "done", "diverged", "failed", "running", "todo"]
    assert [len(curves.get(row.run_id, ())) for row in rows] == [3, 3, 1, 0, 1, 0]
    assert rows[0].accuracy == curves[rows[0].run_id][-1].accuracy == 0.4
    assert all(point.train_score is None for curve in curves.values() for point in curve)
    assert (folder / FILE).read_bytes() == OLD.read_bytes()
    assert [path.name for path in folder.iterdir()] == [FILE]


def test_an_old_store_is_brought_up_to_date_when_it_is_written_to(tmp_path: Path) -> None:
    folder = old_store(tmp_path / "old")
    with Store.open(folder, read_only=True) as store:
        before = (store.rows(), store.curves(), store.sweeps())
        notes = store.notes()
    with Store.open(folder) as store:
        assert (store.rows(), store.curves(), store.sweeps()) == before
        assert store.notes()[:-1] == notes
        assert "6 runs of an older recollect" in store.notes()[-1].text
        assert store.version == VERSION
        todo = before[0][-1].run_id
        claims = store.claim([todo], this_process(), 60)
        new = Evaluation(2, 1.0, 1.0, 0.5, 0.5, train_score=0.75)
        store.record(claims, [(todo, new)])
        store.finish(
            [Result(todo, claims[todo], "done", 4, 1.0, Evaluation(4, 1.0, 1.0, 1.0, 1.0))]
        )
        assert [point.train_score for point in store.curve(todo)] == [0.75, None]
        assert store.curves()[todo][0] == new
        assert store.check() == []
    with Store.open(folder) as store:  # nothing is left to do
        assert store.version == VERSION
    fresh = tmp_path / "fresh"
    Store.create(fresh).close()
    assert sorted(contents(folder / FILE)) == sorted(contents(fresh / FILE))


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_rows_older_than_checksums_have_them_once_their_store_is_written_to(
    tmp_path: Path, version: int
) -> None:
    """The same numbers are shown, and what is changed after that is not."""
    folder = old_store(tmp_path / "old")
    connection = sqlite3.connect(folder / FILE, isolation_level=None)
    register(connection)
    for statement in statements(since=1, version=version):
        connection.execute(statement)
    connection.close()
    with Store.open(folder, read_only=True) as store:
        before, unsummed = (store.rows(), store.curves()), store.unsummed()
        assert store.problems == ()
    assert unsummed == len(before[0]) == 6
    with Store.open(folder) as store:
        assert (store.rows(), store.curves()) == before
        assert (store.unsummed(), store.problems) == (0, ())
        notes = len(store.notes())
    with Store.open(folder) as store:
        assert len(store.notes()) == notes, "it is said once"
    done = before[0][0].run_id
    for change in (
        f"UPDATE runs SET state_size = 9 WHERE run_id = '{done}'",
        f"UPDATE evaluations SET accuracy = 0.99 WHERE run_id = '{done}' AND step = 2",
        f"UPDATE evaluations SET checksum = NULL WHERE run_id = '{done}' AND step = 2",
    ):
        changed = tmp_path / "changed"
        shutil.rmtree(changed, ignore_errors=True)
        changed.mkdir()
        shutil.copyfile(folder / FILE, changed / FILE)
        connection = sqlite3.connect(changed / FILE, isolation_level=None)
        rules = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (rule,) in rules.fetchall():
            connection.execute(f"DROP TRIGGER {rule}")
        connection.execute(change)
        connection.close()
        with Store.open(changed, read_only=True) as store:
            store.rows(), store.curves()
            assert len(store.problems) == 1, change
            assert done in store.problems[0]
            assert "checksum" in store.problems[0]


def test_a_finished_run_cannot_change_after_its_store_was_brought_up_to_date(
    tmp_path: Path,
) -> None:
    folder = old_store(tmp_path / "old")
    Store.open(folder).close()
    connection = sqlite3.connect(folder / FILE, isolation_level=None)
    register(connection)
    with pytest.raises(sqlite3.IntegrityError, match="only a running run"):
        connection.execute("UPDATE evaluations SET accuracy = 1.0")
    connection.close()


def test_a_text_that_is_no_text_does_not_hinder_it(tmp_path: Path) -> None:
    folder = old_store(tmp_path / "old")
    connection = sqlite3.connect(folder / FILE, isolation_level=None)
    connection.execute("DROP TRIGGER finished_is_for_ever")
    connection.execute("UPDATE runs SET device = CAST(x'61ff62' AS TEXT) WHERE rowid = 1")
    connection.close()
    with Store.open(folder) as store:
        assert store.unsummed() == 0
        assert len(store.rows()) == 6
    with Store.open(folder, read_only=True) as store:
        assert (len(store.rows()), store.problems) == (6, ())


@pytest.mark.parametrize("began", range(1, VERSION + 1))
def test_a_kill_while_it_is_brought_up_to_date_leaves_the_old_version(
    tmp_path: Path, began: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path / FILE, began).close()

    def cut_off(since: int = 0, version: int = VERSION) -> list[str]:
        return [*list(statements(since, version))[:-2], "no statement at all"]

    monkeypatch.setattr("recollect.store.database.statements", cut_off)
    if began < VERSION:
        with pytest.raises(StoreError):
            Store.open(tmp_path)
    with Store.open(tmp_path, read_only=True) as store:
        assert store.version == began
        assert store.rows() == []


@pytest.mark.parametrize("began", range(1, VERSION + 1))
def test_every_page_of_a_store_may_be_lost_whatever_version_it_began_with(
    tmp_path: Path, began: int
) -> None:
    good = tmp_path / "good"
    good.mkdir()
    begun(good / FILE, began).close()
    run_ids = [f"{serial:04d}" for serial in range(150)]
    with Store.open(good) as store:
        store.plan(
            [
                PlannedRun(run_id, json.dumps({"name": run_id}), "accuracy", 0.5)
                for run_id in run_ids
            ],
            "sweep",
            "",
        )
        claims = store.claim(run_ids, this_process(), 60)
        store.finish(
            Result(run_id, attempt, "done", 2, 0.5, Evaluation(2, 0.5, 0.5, 0.25, 0.25))
            for run_id, attempt in claims.items()
        )
        truth = {row.run_id: row for row in store.rows()}
    sound = (good / FILE).read_bytes()
    folder = tmp_path / "bad"
    folder.mkdir()
    few = 0
    for page in range(len(sound) // PAGE):
        (folder / FILE).write_bytes(
            sound[: page * PAGE] + b"\x55" * PAGE + sound[(page + 1) * PAGE :]
        )
        rows, problems = salvage(folder)
        assert all(row == truth[row.run_id] for row in rows if row.accuracy is not None)
        few += len(rows) < len(truth) // 2
        assert problems or len(rows) == len(truth)
    assert few == 1  # the page that leads to all runs
