"""Taking back runs that nobody has begun: what goes, what stays, and what is refused."""

import sqlite3
from pathlib import Path

import pytest
from rows_made import make_row
from stores_made import finish, make_store, plan

from recollect.errors import SpecError
from recollect.running.planning.order import remember_search, searched_sweeps, sweeps_by_name
from recollect.store import Store
from recollect.store.database import FILE
from recollect.store.reading.checksums import register

ROWS = [make_row(seed=seed, score=None, status="todo") for seed in range(6)]
IDS = [row.run_id for row in ROWS]


@pytest.fixture
def store(tmp_path: Path):
    """Two sweeps that share a run; one run is done, one was begun and released."""
    make_store(tmp_path, ROWS[:4], "mine")
    with Store.open(tmp_path) as store:
        plan(store, ROWS[3:], "theirs")
        finish(store, [make_row(seed=0)])
        store.release(store.claim(IDS[1:2], "me", 60.0))
        yield store


def test_what_has_begun_and_what_another_sweep_has_stays(store: Store):
    assert store.unplan("mine", IDS) == (1, 1, 2)
    assert [row.run_id for row in store.rows()] == [IDS[0], IDS[1], *IDS[3:]]
    assert sweeps_by_name(store) == {
        "mine": frozenset(IDS[:2]),
        "theirs": frozenset(IDS[3:]),
    }
    assert store.notes()[-1].text == "2 runs of mine taken back before they began"
    assert store.check() == []
    assert store.problems == ()
    assert store.unplan("mine", IDS) == (0, 0, 2), "nothing is left to take back"


def test_only_the_runs_that_are_named_go(store: Store):
    assert store.unplan("theirs", IDS[4:5]) == (1, 0, 0)
    assert sweeps_by_name(store)["theirs"] == frozenset([IDS[3], IDS[5]])
    assert store.unplan("mine", IDS[4:]) == (0, 0, 0), "it has neither"


def test_a_sweep_without_runs_is_forgotten_with_how_it_is_trained(store: Store):
    remember_search(store, ["mine", "theirs"], "edges")
    store.unplan("theirs", IDS)
    assert list(sweeps_by_name(store)) == ["mine"]
    assert searched_sweeps(store) == {"mine": "edges"}


def test_it_can_be_planned_again(store: Store):
    before = store.rows()
    store.unplan("theirs", IDS)
    assert store.unsummed() == 0
    plan(store, ROWS[3:], "theirs")
    assert store.rows() == before


def test_while_something_trains_it_is_refused(store: Store):
    store.claim(IDS[4:5], "somebody", 60.0)
    with pytest.raises(SpecError, match="a process trains 1 of its runs; runs are taken back"):
        store.unplan("mine", IDS)
    assert len(store.rows()) == len(ROWS)


@pytest.mark.parametrize("which", [0, 1])
def test_the_database_itself_keeps_what_has_begun(store: Store, tmp_path: Path, which: int):
    store.close()
    connection = sqlite3.connect(tmp_path / FILE)
    register(connection)
    with pytest.raises(sqlite3.IntegrityError, match="a run that has begun cannot be deleted"):
        connection.execute("DELETE FROM runs WHERE run_id = ?", [IDS[which]])
    connection.close()
