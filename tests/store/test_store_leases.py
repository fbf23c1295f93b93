"""Claims that end without a result: lost runs, claims taken over, leases by several clocks."""

from collections.abc import Callable
from pathlib import Path

import pytest
from named_runs import RUNS, at, done

from recollect.store import MAX_LOST, PlannedRun, Store
from recollect.store.ownership import this_process


def alive(owner: str) -> bool:
    return False  # nobody is provably dead


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
