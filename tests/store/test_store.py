"""The store's rules one by one: numbers, what is finished, plans, notes.

All together: test_store_machine.py.
"""

import math
import threading

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from named_runs import RUNS, at, done, planned

from recollect.errors import StoreError
from recollect.rows import Evaluation, StopReason
from recollect.store import PlannedRun, Result, Store
from recollect.store.ownership import this_process

POINT = "evaluations (run_id, step, train_loss, test_loss, accuracy, exact, slices)"
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


@pytest.mark.parametrize("curve", [[], [at(10), at(20)]], ids=["at once", "after a while"])
def test_a_failed_run_has_no_score_and_the_steps_that_were_seen(
    store: Store, curve: list[Evaluation]
) -> None:
    """Whoever ends it knows neither its steps nor its time, and says 0."""
    claims = store.claim(["a"], this_process(), 60)
    store.record(claims, [("a", point) for point in curve])
    store.finish([Result("a", claims["a"], "failed", steps=0, wall_s=0.0, failure="oom: 1")])
    (row,) = (row for row in store.rows() if row.run_id == "a")
    assert (row.status, row.score, row.wall_s) == ("failed", None, None)
    assert row.steps == (20 if curve else None)
    assert row.accuracy == (curve[-1].accuracy if curve else None), "of step 20, as its curve has"


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
