"""The store's rules one by one: numbers, what is finished, lost runs, owners, opening.

All together: test_store_machine.py.
"""

import json
import math
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recollect.errors import SpecError, StoreError
from recollect.rows import Evaluation, StopReason
from recollect.store import MAX_LOST, PlannedRun, Result, Store
from recollect.store.database import FILE
from recollect.store.ownership import this_process

RUNS = ("a", "b", "c", "d", "e")
POINT = "evaluations (run_id, step, train_loss, test_loss, accuracy, exact, slices)"


def planned(*run_ids: str) -> list[PlannedRun]:
    return [PlannedRun(run_id, json.dumps({"name": run_id}), "accuracy", 0.1) for run_id in run_ids]


def at(step: int, value: float = 0.5) -> Evaluation:
    return Evaluation(step, value, value, value, value, {"test": {"accuracy": value}})


def done(run_id: str, attempt: int, **more: object) -> Result:
    return Result(run_id, attempt, "done", 10, 1.0, **more)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "out") as store:
        store.plan(planned(*RUNS), "sweep", "text")
        yield store


def alive(owner: str) -> bool:
    return False  # nobody is provably dead


# ---- numbers ----

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)


@given(
    numbers=st.lists(ANY_FLOAT, min_size=4, max_size=4),
    slices=st.dictionaries(st.text(max_size=5), ANY_FLOAT, max_size=3),
    trained=st.none() | ANY_FLOAT,
)
@example(numbers=[math.nan, -math.inf, -0.0, 5e-324], slices={"x": math.nan}, trained=math.nan)
@example(numbers=[0.0, 0.0, 0.0, 0.0], slices={}, trained=0.0)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_float_comes_back_as_it_went_in(
    store: Store, numbers: list[float], slices: dict[str, float], trained: float | None
) -> None:
    claims = store.claim(["a"], this_process(), 60) or {"a": 1}
    given_in = Evaluation(1, *numbers, {"test": slices}, trained)
    assert store.record(claims, [("a", given_in)]) == set()
    assert repr(store.curve("a")) == repr(
        [given_in]
    )  # repr tells nan from nothing and -0.0 from 0.0
    assert repr(store.rows()[0].accuracy) == repr(numbers[2])
    assert repr(store.rows()[0].train_score) == repr(trained)


@pytest.mark.parametrize("reason", [None, "solved", "hopeless"])
def test_a_result_comes_back_whole(store: Store, reason: StopReason | None) -> None:
    (attempt,) = store.claim(["b"], this_process(), 60).values()
    about = {
        "parameters": 12,
        "state_size": 3,
        "device": "cpu",
        "threads": 2,
        "versions": {"torch": "2"},
        "stopped_early": reason,
    }
    assert store.finish([Result("b", attempt, "done", 40, 2.5, at(40, 0.875), **about)]) == set()
    row = store.rows()[1]
    assert (row.run_id, row.spec, row.status, row.score, row.steps, row.wall_s) == (
        "b",
        {"name": "b"},
        "done",
        0.875,
        40,
        2.5,
    )
    assert {name: getattr(row, name) for name in about} == about
    assert store.rows()[0].accuracy is None


# ---- rules ----


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET steps = 11 WHERE run_id = 'a'",
        "UPDATE runs SET status = 'todo', finished = NULL WHERE run_id = 'a'",
        "DELETE FROM runs WHERE run_id = 'a'",
        "DELETE FROM runs WHERE run_id = 'c'",
        "UPDATE runs SET spec = '{}' WHERE run_id = 'c'",
        "UPDATE runs SET failure = 'x' WHERE run_id = 'b'",
        f"INSERT INTO {POINT} VALUES ('a', 99, 0, 0, 0, 0, '{{}}')",
        f"INSERT INTO {POINT} VALUES ('c', 99, 0, 0, 0, 0, '{{}}')",
        "UPDATE evaluations SET exact = 0 WHERE run_id = 'a'",
        "DELETE FROM evaluations WHERE run_id = 'a'",
    ],
)
def test_the_database_itself_refuses_to_change_what_is_finished(
    store: Store, statement: str
) -> None:
    claims = store.claim(["a", "b"], this_process(), 60)
    store.finish(
        [done("a", 1, last=at(10)), Result("b", claims["b"], "failed", 1, 1.0, failure="oom: 1")]
    )
    before = (store.rows(), store.curves())
    with (
        pytest.raises(StoreError, match="refused by its own rules"),
        store._transaction() as connection,
    ):
        connection.execute(statement)
    assert (store.rows(), store.curves()) == before


@pytest.mark.parametrize(
    "result",
    [
        Result("a", 1, "diverged", 1, 1.0),
        Result("a", 1, "failed", 1, 1.0),
        Result("a", 1, "done", 1, 1.0, failure="x"),
    ],
)
def test_a_result_without_its_reason_is_refused_and_its_neighbours_with_it(
    store: Store, result: Result
) -> None:
    store.claim(["a", "b"], this_process(), 60)
    with pytest.raises(StoreError, match="refused by its own rules"):
        store.finish([done("b", 1, last=at(10)), result])
    assert store.counts()["running"] == 2
    assert store.curves() == {}


def test_a_run_lost_without_progress_trains_in_less_company_and_fails_in_the_end(
    store: Store,
) -> None:
    limits = []
    for _ in range(MAX_LOST - 1):
        store.claim(RUNS[: limits[-1] if limits else 4], "dead", 60)
        assert "a" in store.reclaim(lambda owner: owner == "dead")
        limits.append(store.todo()[0].pack_limit)
    assert limits == [2, 1, 1, 1]
    claims = store.claim(["a"], "dead", 60)
    store.record(claims, [("a", at(5))])  # progress: the count starts anew
    store.reclaim(lambda owner: True)
    for _ in range(MAX_LOST):
        assert store.counts()["failed"] == 0
        claims = store.claim(["a"], "dead", 60)
        store.rewind(claims, 3)
        store.record(
            claims, [("a", at(4)), ("a", at(5))]
        )  # seen before: dying here again and again must end
        store.reclaim(lambda owner: True)
    assert store.counts()["failed"] == 1
    assert store.rows()[0].failure == "lost: 5 attempts in a row ended without progress"
    assert store.reopen_failed() == ["a"]
    assert store.rows()[0].failure is None


@pytest.mark.parametrize(
    "late",
    [
        lambda store, claims: store.heartbeat(claims, 1e6),
        lambda store, claims: store.release(claims),
        lambda store, claims: store.progress(claims, 9),
        lambda store, claims: store.rewind(claims, -1),
        lambda store, claims: store.record(claims, [("a", at(2, 0.0))]),
        lambda store, claims: store.finish([done("a", claims["a"], last=at(2, 0.0))]),
    ],
    ids=["heartbeat", "release", "progress", "rewind", "record", "finish"],
)
def test_a_claim_that_was_taken_over_changes_nothing(
    store: Store, late: Callable[[Store, dict[str, int]], set[str]]
) -> None:
    outdated = store.claim(["a"], "slow", 60)
    store.reclaim(lambda owner: True)
    store.record(store.claim(["a"], "quick", 60), [("a", at(1))])
    before = store._read("SELECT * FROM runs"), store.curves()
    assert late(store, outdated) == {"a"}
    assert (store._read("SELECT * FROM runs"), store.curves()) == before


def test_setting_the_clock_expires_no_lease_and_makes_none_immortal(store: Store) -> None:
    steady, wall = [5000.0], [1e9]
    store.clock, store.wall = lambda: steady[0], lambda: wall[0]
    store.claim(["a"], "elsewhere|boot|1|1", 60)
    for jump in (86_400, -172_800):
        wall[0] += jump
        assert store.reclaim(alive) == []
    steady[0] += 61
    assert store.reclaim(alive) == ["a"]
    store.claim(["a"], this_process(), 60)
    steady[0] = 10.0  # a lease from the future that our own clock cannot have given
    assert store.reclaim(alive) == ["a"]


@pytest.mark.parametrize("theirs", [1e9, -1e9, 0.0], ids=["ahead", "behind", "at its beginning"])
def test_a_lease_on_another_clock_is_not_stolen_while_it_is_renewed(
    store: Store, tmp_path: Path, theirs: float
) -> None:
    """Two stores as two machines have them, whose steady clocks differ by `theirs` seconds."""
    now = [5000.0]
    store.clock = lambda: now[0]
    with Store.open(tmp_path / "out") as other:
        other.clock = lambda: now[0] + theirs
        claims = other.claim(["a", "b"], "elsewhere|another boot|1|1", 60)
        for _ in range(20):
            assert store.reclaim() == []
            now[0] += 10
            assert other.heartbeat(claims, 60) == set()
        assert store.undecided() == {}, "somebody trains them"
        assert store.reclaim() == []
        now[0] += 59
        assert store.reclaim() == []
        now[0] += 1
        assert sorted(store.reclaim()) == ["a", "b"], "not renewed for a whole lease"
        assert other.heartbeat(claims, 60) == {"a", "b"}


def test_planning_again_adds_only_what_is_new(store: Store) -> None:
    store.claim(["a"], this_process(), 60)
    plan = store.plan(planned("a", "b", "z"), "second", "other text")
    assert plan.new == 1
    assert (plan.known["running"], plan.known["todo"]) == (1, 1)
    assert [(sweep.name, sweep.source, sweep.run_ids) for sweep in store.sweeps()] == [
        ("sweep", "text", RUNS),
        ("second", "other text", ("a", "b", "z")),
    ]
    store.plan(planned("a", "b", "z"), "second", "other text")
    assert len(store.sweeps()) == 2


def test_one_id_with_two_specifications_is_refused(store: Store) -> None:
    with pytest.raises(
        StoreError, match="run a is stored with another specification; use a new --out folder"
    ):
        store.plan(
            [
                PlannedRun("y", "{}", "exact", 0.1),
                PlannedRun("a", '{"name": "x"}', "accuracy", 0.1),
            ],
            "s",
            "t",
        )
    assert sum(store.counts().values()) == len(RUNS)


def test_notes_and_meta_are_kept(store: Store) -> None:
    store.note("checkpoint", "x is damaged")
    assert [(note.kind, note.text) for note in store.notes()] == [("checkpoint", "x is damaged")]
    assert store.meta("host") is None
    store.set_meta("host", "one")
    store.set_meta("host", "two")
    assert store.meta("host") == "two"


def test_threads_may_share_a_store(store: Store) -> None:
    claims = store.claim(RUNS, this_process(), 60)
    refused: list[set[str]] = []
    beats = [
        threading.Thread(target=lambda: refused.append(store.heartbeat(claims, 60)))
        for _ in range(8)
    ]
    for thread in beats:
        thread.start()
    for step in range(20):
        store.record(claims, [(run_id, at(step)) for run_id in RUNS])
    for thread in beats:
        thread.join()
    assert refused == [set()] * 8
    assert len(store.curve("a")) == 20


# ---- opening ----


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


def test_a_large_pack_is_halved_down_to_one_before_a_run_is_given_up(tmp_path: Path) -> None:
    names = [f"r{i}" for i in range(64)]
    with Store.create(tmp_path) as store:
        store.plan([PlannedRun(name, "{}", "accuracy", 0.5) for name in names], "large", "")
        size = 64
        for _ in range(MAX_LOST + 2):
            store.claim(names[:size], "dead", 60)
            store.reclaim(lambda owner: True)
            assert store.counts()["failed"] == (1 if size == 1 else 0)
            size = store.todo()[0].pack_limit or size
        assert {row.status for row in store.rows()[1:]} == {"todo"}


@pytest.mark.parametrize("text", ["", "[1]", "{", "null"])
def test_a_stored_specification_that_is_no_table_costs_its_row(store: Store, text: str) -> None:
    store.plan([PlannedRun("z", text, "accuracy", 0.5)], "hostile", "")
    assert [row.run_id for row in store.rows()] == list(RUNS)
    assert store.problems == (f"run z: spec = {text!r} is not a table in JSON; left out",)


def test_a_curve_costs_the_same_however_many_runs_there_are(store: Store) -> None:
    work: list[int] = []  # instructions of SQLite's machine, in tens

    def curve() -> int:
        work.clear()
        store._connection.set_progress_handler(lambda: work.append(1) and None, 10)
        store.curve("a")
        return len(work)

    few = curve()
    store._connection.set_progress_handler(None, 0)
    store.plan(planned(*(f"more{serial}" for serial in range(2000))), "large", "")
    assert curve() <= few + 20
