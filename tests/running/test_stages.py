"""Stages for several processes: a search trains the same runs however many there are, and nobody is
asked twice to do what it cannot. No run is trained here: the test is who is free.
"""

import random
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import pytest

from recollect.errors import Stopped
from recollect.rows import Evaluation
from recollect.running import engine
from recollect.running.budget import SPENT, Budget
from recollect.running.planning.order import order_of, remember_search
from recollect.running.processes import child
from recollect.running.processes.child import Said
from recollect.running.processes.devices import DeviceShare
from recollect.running.processes.parent import WorkerProcesses, _Started
from recollect.running.processes.stages import Offer, SharedStages
from recollect.spec.sweep import Sweep
from recollect.store import Result, Store

RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
SOLVED = {(16, 1e-3), (16, 3e-3), (16, 1e-2), (32, 3e-2)}


@pytest.fixture
def make_store(tmp_path: Path, make_run):
    """Two cells of 14 runs each."""
    opened: list[Store] = []

    def make(name: str = "out") -> Store:
        store = Store.create(tmp_path / name)
        opened.append(store)
        runs = [
            make_run({"train.lr": lr, "seed": seed, "model.width": width})
            for width in (16, 32)
            for lr in RATES
            for seed in (1, 2)
        ]
        engine.plan(store, Sweep("tiny", "", tuple(runs)))
        return store

    yield make
    for store in opened:
        store.close()


def place(store: Store, run_id: str) -> tuple[int, float]:
    spec = next(row.spec for row in store.rows() if row.run_id == run_id)
    return spec["model"]["width"], spec["train"]["lr"]


def finish(store: Store, claims: dict[str, int]) -> None:
    for run_id, attempt in claims.items():
        score = 0.99 if place(store, run_id) in SOLVED else 0.1
        last = Evaluation(6, 1.0, 1.0, score, score)
        store.finish([Result(run_id, attempt, "done", steps=6, wall_s=1.0, last=last)])


def done(store: Store) -> set[str]:
    return {row.run_id for row in store.rows() if row.status == "done"}


def searching(store: Store) -> SharedStages:
    remember_search(store, ["tiny"], "edges")
    return SharedStages(store, order_of(store, within_budget=False))


def search_alone(store: Store) -> None:
    remember_search(store, ["tiny"], "edges")
    choose = order_of(store, within_budget=False)
    while (stage := choose(store.rows())) is not None:
        finish(store, store.claim(stage.run_ids, "alone", 60))


@pytest.mark.parametrize("seed", range(6))
def test_a_search_by_several_trains_what_one_would(make_store, seed):
    """They claim one or a few runs of what they are offered, and end them in any order."""
    draw, store, alone = random.Random(seed), make_store(), make_store("alone")
    search_alone(alone)
    stages, held = searching(store), {}
    for _ in range(1_000):
        who = draw.randrange(4)
        if who in held:
            finish(store, held.pop(who))
            continue
        offer = stages.next()
        if offer is not None:
            some = draw.sample(offer.stage.run_ids, min(draw.randint(1, 3), len(offer.attempts)))
            held[who] = store.claim(some, f"{who}", 60)
        elif not held:
            break
    assert not held
    assert done(store) == done(alone)
    assert len(done(alone)) < len(store.rows())


def test_a_cell_has_its_next_round_when_all_of_the_last_has_ended_whatever_the_others_do(
    make_store,
):
    store = make_store()
    stages = searching(store)
    first = stages.next()
    assert {place(store, run_id) for run_id in first.stage.run_ids} == {
        (width, lr) for width in (16, 32) for lr in (1e-3, 1e-2)
    }
    narrow = [run_id for run_id in first.stage.run_ids if place(store, run_id)[0] == 16]
    finish(store, store.claim(narrow[:1], "one", 60))
    assert set(stages.next().stage.run_ids) == {*first.stage.run_ids} - {narrow[0]}
    finish(store, store.claim(narrow[1:], "one", 60))
    offered = {place(store, run_id) for run_id in stages.next().stage.run_ids}
    assert {lr for width, lr in offered if width == 32} == {1e-3, 1e-2}, "they wait as before"
    assert {width for width, lr in offered if lr not in (1e-3, 1e-2)} == {16}


def test_within_a_budget_what_others_train_is_not_begun_again(make_store):
    store = make_store()
    choose = order_of(store, within_budget=True)
    stages = SharedStages(store, choose, Budget(1.0, 1e9))
    first = stages.next()
    assert first.stage.name == "coarse"
    held = first.stage.run_ids[:2]
    store.claim(held, "one", 60)
    then = stages.next().stage
    assert (then.name, then.run_ids) == ("coarse", first.stage.run_ids[2:])
    assert {place(store, run_id) for run_id in held}.isdisjoint(
        place(store, run_id) for run_id in then.run_ids
    ), "nor another seed of its rate"


# ---- who is told what ----


class AliveProcess:
    def is_alive(self) -> bool:
        return True


@pytest.fixture
def make_team(tmp_path):
    def make(stages, number: int) -> tuple[WorkerProcesses, list]:
        team = WorkerProcesses(
            tmp_path, [DeviceShare("cpu")] * number, (), lambda: 0, stages=stages
        )
        ends = []
        for assignment in team._assignments:
            connection, its_end = Pipe()
            team._living.append(_Started(assignment, AliveProcess(), connection))
            ends.append(its_end)
        return team, ends

    return make


def offers(*found: Offer | None) -> SimpleNamespace:
    left = iter(found)
    return SimpleNamespace(next=lambda: next(left), budget=None)


def hear(team: WorkerProcesses, ended: int) -> None:
    team._reap(SimpleNamespace())
    team._answer(team._stages, ended)


def test_whoever_comes_back_to_the_same_waits_and_all_end_together(make_team):
    stage = SimpleNamespace(run_ids=("a",))
    same = Offer(stage, frozenset({("a", 0)}))
    again = Offer(stage, frozenset({("a", 1)}))  # given back by somebody
    team, (one, two) = make_team(offers(same, same, same, again, again, None), 2)
    one.send(Said.FREE)
    hear(team, 0)
    assert one.recv() == stage
    hear(team, 0)
    assert not one.poll(), "it is at work"
    one.send(Said.FREE)
    hear(team, 0)
    hear(team, 0)
    assert not one.poll(), "it could do nothing with it, and nothing has changed"
    two.send(Said.FREE)
    hear(team, 0)
    assert (two.recv(), one.poll()) == (stage, False)
    hear(team, 1)
    assert one.recv() == stage
    one.send(Said.FREE)
    hear(team, 1)
    assert not one.poll(), "the other one still trains"
    two.send(Said.FREE)
    hear(team, 2)
    assert (one.recv(), two.recv()) == (None, None)


@pytest.mark.parametrize("code", [143, SPENT])
def test_who_waits_can_be_stopped(code, monkeypatch):
    monkeypatch.setattr(child, "LOOK_EVERY_S", 0.001)
    its_end, _parents = Pipe()
    with pytest.raises(Stopped) as stopped:
        child._ask(its_end, lambda: code, ())
    assert stopped.value.exit_code == code


def test_who_waits_ends_with_its_parent():
    its_end, parents = Pipe()
    parents.close()
    with pytest.raises(Stopped) as stopped:
        child._ask(its_end, lambda: 0, ())
    assert stopped.value.exit_code == child.ORPHANED
