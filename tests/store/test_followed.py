"""Rows that are followed are those that a fresh read gives."""

import random
from dataclasses import replace
from unittest.mock import patch

import pytest
from named_runs import RUNS, at, done, planned

from recollect.rows import RunRow
from recollect.store import Store
from recollect.store.ownership import this_process
from recollect.store.reading.followed import FollowedRows


def shown(rows: list[RunRow]) -> list[RunRow]:
    return [replace(row, attempt=0) if row.status == "todo" else row for row in rows]


@pytest.mark.parametrize("seed", range(8))
def test_every_look_shows_the_rows_as_they_are(store: Store, seed: int) -> None:
    draw, followed, held = random.Random(seed), FollowedRows(store), dict[str, int]()
    for step in range(60):
        for _ in range(draw.randrange(3)):
            match draw.choice(("claim", "record", "finish", "release", "plan", "unplan")):
                case "claim":
                    held |= store.claim([draw.choice(RUNS)], this_process(), 60)
                case "record" if held:
                    run_id = draw.choice([*held])
                    store.record(held, [(run_id, at(step + 1, draw.random()))])
                case "finish" if held:
                    run_id = draw.choice([*held])
                    last = at(10 + step, draw.random())
                    store.finish([replace(done(run_id, held.pop(run_id), last=last), steps=step)])
                case "release" if held:
                    run_id = draw.choice([*held])
                    store.release({run_id: held.pop(run_id)})
                case "plan":
                    store.plan(planned(f"new {step}"), "more", f"{step}")
                case "unplan" if not held:
                    waiting = [row.run_id for row in store.rows() if row.status == "todo"]
                    store.unplan("more", draw.sample(waiting, min(2, len(waiting))))
        assert by_id(shown(followed.read())) == by_id(shown(store.rows()))


def by_id(rows: list[RunRow]) -> dict[str, RunRow]:
    return {row.run_id: row for row in rows}


def test_a_run_planned_with_the_number_of_one_taken_back_is_seen(store: Store) -> None:
    store.plan(planned("wrong"), "more", "first")
    followed = FollowedRows(store)
    store.unplan("more", ["wrong"])
    store.plan(planned("right"), "more", "second")
    assert [row.run_id for row in followed.read()][-1] == "right"
    assert "wrong" not in by_id(followed.read())


def test_a_look_reads_only_what_may_have_changed(store: Store) -> None:
    followed = FollowedRows(store)
    claims = store.claim(["a", "b"], this_process(), 60)
    store.finish([done("a", claims["a"], last=at(10))])
    with patch.object(Store, "rows", autospec=True, side_effect=Store.rows) as rows:
        assert [row.status for row in followed.read()][:3] == ["done", "running", "todo"]
        followed.read()
    assert [len(call.args[1]) for call in rows.call_args_list] == [2, 1]
