"""Runs that a process on another clock holds: they are taken over once nobody renews their leases
for as long as those last by our own clock, and left to it for as long as somebody does.
"""

from pathlib import Path

import pytest
import torch

from recollect.errors import Stopped
from recollect.running import engine, worker
from recollect.running.events import Remark
from recollect.running.worker import Worker
from recollect.spec.sweep import Sweep
from recollect.store import Store

OWNER = "far-awaypid:[1]|another boot|1|1"
LEASE_S = 60.0


class Clock:
    """Sleeping moves it, and lets others act."""

    def __init__(self) -> None:
        self.now, self.sleeps = 1000.0, 0
        self.others = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.sleeps += 1
        assert self.now < 1000.0 + 10 * LEASE_S, "it waits for ever"
        self.others()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(worker.time, "sleep", clock.sleep)
    return clock


@pytest.fixture
def store(tmp_path: Path, make_run, clock: Clock):
    run = make_run({"train.steps": 2, "train.evaluations": 1, "model.depth": 1})
    with Store.create(tmp_path) as store:
        store.clock = lambda: clock.now
        engine.plan(store, Sweep("sweep", "", (run,)))
        yield store


def train(store: Store, stop=lambda: 0) -> list[str]:
    said: list[str] = []

    def listen(event: object) -> None:
        if isinstance(event, Remark):
            said.append(event.text)

    with Worker(store, store.path.parent, torch.device("cpu"), listen, stop, threads=1) as one:
        one.work()
    return said


@pytest.mark.parametrize("renewed", [1e12, -1e12])
def test_a_lease_that_nobody_renews_is_waited_for_and_taken(
    store: Store, clock: Clock, renewed: float
) -> None:
    began, mine = clock.now, store.clock
    store.clock = lambda: renewed
    store.claim([todo.run_id for todo in store.todo()], OWNER, LEASE_S)
    store.clock = mine
    (said,) = train(store)
    assert "1 runs are held by a process with another clock (far-away)" in said
    assert "does not renew them for 60 s" in said
    assert store.counts()["done"] == 1
    assert LEASE_S <= clock.now - began < LEASE_S + 2


def test_a_lease_that_somebody_renews_is_left_to_him(store: Store, clock: Clock) -> None:
    claims = store.claim([todo.run_id for todo in store.todo()], OWNER, LEASE_S)

    def renew() -> None:
        if clock.sleeps % 20 == 0:  # ten seconds
            store.heartbeat(claims, LEASE_S)

    clock.others = renew
    assert len(train(store)) == 1
    assert store.counts()["running"] == 1
    assert store.heartbeat(claims, LEASE_S) == set(), "it still holds them"
    assert clock.sleeps <= 21, "nobody waits longer than it takes to see that"


def test_whoever_waits_can_be_stopped(store: Store, clock: Clock) -> None:
    claims = store.claim([todo.run_id for todo in store.todo()], OWNER, LEASE_S)
    with pytest.raises(Stopped) as stopped:
        train(store, stop=lambda: 143 if clock.sleeps > 3 else 0)
    assert stopped.value.exit_code == 143
    assert store.heartbeat(claims, LEASE_S) == set()
