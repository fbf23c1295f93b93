"""What a salvage returns and says, fault by fault; random pages are in test_store_damage.py."""

import sqlite3
from pathlib import Path

import pytest
from named_runs import RUNS, at, done, planned

from recollect.errors import SpecError
from recollect.rows import RunRow
from recollect.store import Store
from recollect.store.database import FILE
from recollect.store.ownership import this_process
from recollect.store.salvage import salvage

MANY = [f"{serial:04d}" for serial in range(400)]


def fill(folder: Path, run_ids=RUNS) -> list[RunRow]:
    """Finished runs with a curve of two points, but for the last one, which is planned."""
    with Store.create(folder) as store:
        store.plan(planned(*run_ids), "sweep", "text")
        claims = store.claim(run_ids[:-1], this_process(), 60)
        store.record(claims, [(run_id, at(5, 0.25)) for run_id in claims])
        store.finish(done(run_id, attempt, last=at(10, 0.75)) for run_id, attempt in claims.items())
        return store.rows()


def replace_bytes(folder: Path, old: bytes, new: bytes) -> None:
    path = folder / FILE
    content = path.read_bytes()
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))


def change_point(folder: Path, run_id: str) -> None:
    """Change the last score of a run as a flipped bit would, past all rules of the store."""
    connection = sqlite3.connect(folder / FILE)
    connection.execute("DROP TRIGGER points_change_while_running")
    connection.execute(
        "UPDATE evaluations SET accuracy = 0.5 WHERE run_id = ? AND step = 10", [run_id]
    )
    connection.commit()
    connection.close()


def test_a_sound_store_is_read_whole(tmp_path):
    truth = fill(tmp_path)
    assert salvage(tmp_path) == (truth, [])
    assert truth[0].accuracy == 0.75


def test_what_only_the_log_holds_is_read(tmp_path):
    with Store.create(tmp_path) as store:
        store.plan(planned(*RUNS), "sweep", "text")
        assert (tmp_path / f"{FILE}-wal").stat().st_size > 0
        assert salvage(tmp_path) == (store.rows(), [])


def test_a_log_that_cannot_be_read_is_named(tmp_path):
    truth = fill(tmp_path)
    (tmp_path / f"{FILE}-wal").mkdir()
    rows, problems = salvage(tmp_path)
    assert rows == truth
    assert problems == [
        f"{tmp_path / FILE}-wal: is no regular file; read without what only it holds"
    ]


def test_a_changed_run_is_left_out_and_named(tmp_path):
    truth = fill(tmp_path)
    replace_bytes(tmp_path, b'{"name": "c"}', b'{"name": "x"}')
    rows, problems = salvage(tmp_path)
    assert rows == [row for row in truth if row.run_id != "c"]
    assert problems == [
        "run in row 3: unreadable content (its checksum is wrong: it is not as it was written)"
    ]


def test_a_run_with_a_changed_point_is_kept_without_it(tmp_path):
    truth = fill(tmp_path)
    change_point(tmp_path, "b")
    rows, problems = salvage(tmp_path)
    assert [row for row in rows if row.run_id != "b"] == [row for row in truth if row.run_id != "b"]
    assert (rows[1].status, rows[1].accuracy) == ("done", None)
    assert problems == ["curve of run b: its checksum is wrong: it is not as it was written"]


@pytest.mark.parametrize("bad", [1, 2])
def test_rows_around_bad_pages_come_once_and_in_order(tmp_path, bad):
    truth = fill(tmp_path, MANY)
    path = tmp_path / FILE
    content, rows = bytearray(path.read_bytes()), []
    places = [content.find(b'{"name": "%s"}' % run_id.encode()) for run_id in ("0100", "0300")]
    for place in places[:bad]:
        page = place // 4096
        content[page * 4096 : (page + 1) * 4096] = b"\x55" * 4096
    path.write_bytes(content)
    rows, problems = salvage(tmp_path)
    found = [row.run_id for row in rows]
    assert found == sorted(set(found))
    assert all(row in truth for row in rows)
    assert {"0000", "0200", "0399"} <= set(found) < set(MANY)
    assert ("0100" in found, "0300" in found) == (False, bad == 1)
    # Each bad page costs the runs on it alone.
    assert len(found) > len(MANY) - 30 * bad
    assert problems
    assert not any(".recover" in problem for problem in problems)


def test_without_a_database_there_is_nothing_to_salvage(tmp_path):
    with pytest.raises(SpecError, match=r"no results in .*; run `recollect run SPEC"):
        salvage(tmp_path)
