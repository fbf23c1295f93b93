"""Choosing what trains next: what it costs does not grow with the sweep, nothing that waits is
forgotten, and the checkpoints of an ended pack do not stay.
"""

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from recollect.running import engine, saved_runs
from recollect.running import pack as packs
from recollect.running.events import PackStarted, ignore
from recollect.running.pack_queue import EVERYTHING, PackQueue, Selection
from recollect.running.processes.waiting import WaitingRuns
from recollect.running.shapes import Shapes, kind_of
from recollect.running.worker import Worker
from recollect.spec.sweep import Sweep
from recollect.store import Store, checkpoint

CPU = torch.device("cpu")
PAIRS = Selection(pack_size=2)


@pytest.fixture
def planned(tmp_path, make_run) -> Callable[..., Store]:
    """A store with two runs of each of so many shapes."""
    stores = []

    def make(shapes: int) -> Store:
        runs = [
            make_run({"seed": seed, "task.test_rows": 32 + shape, "train.evaluations": 2})
            for shape in range(shapes)
            for seed in (1, 2)
        ]
        stores.append(Store.create(tmp_path / f"{shapes}"))
        engine.plan(stores[-1], Sweep("sweep", "", tuple(runs)))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


def queue(store: Store) -> PackQueue:
    folder = store.path.parent
    return PackQueue(store, folder / "checkpoints", Shapes(store, folder, CPU, 1), ignore)


def worker(store: Store, listen=ignore) -> Worker:
    return Worker(store, store.path.parent, CPU, listen, threads=1)


def claim(store: Store, choice) -> dict[str, int]:
    return store.claim([run.run_id for run in choice.runs], "me", 60)


def test_choosing_a_pack_does_not_cost_more_in_a_larger_sweep(planned, monkeypatch):
    calls: Counter[str] = Counter()
    todo, find = Store.todo, checkpoint.find

    def counted_todo(self, run_ids=None):
        found = todo(self, run_ids)
        calls["rows read"] += len(found)
        return found

    def counted_find(*arguments):
        calls["searches"] += 1
        return find(*arguments)

    monkeypatch.setattr(Store, "todo", counted_todo)
    monkeypatch.setattr(saved_runs.checkpoint, "find", counted_find)
    cost = []
    for shapes in (4, 16):
        calls.clear()
        worker(planned(shapes)).work(PAIRS)
        cost.append((calls["rows read"] / (2 * shapes), calls["searches"]))
    # Each run is read once with all others and once with its pack.
    assert cost == [(2.0, 1), (2.0, 1)]


def test_the_checkpoints_of_a_pack_are_gone_when_the_next_begins(planned, monkeypatch):
    monkeypatch.setattr(packs, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(packs, "SAVE_SHARE", 1e9)
    store, saved, left = planned(4), [], []
    save = checkpoint.save
    monkeypatch.setattr(checkpoint, "save", lambda *args: saved.append(save(*args)) or saved[-1])

    def listen(event):
        if isinstance(event, PackStarted):
            left.extend(path for path in saved if path.exists())

    worker(store, listen).work(PAIRS)
    assert len(saved) >= 4
    assert left == []
    assert store.counts()["done"] == 8


def test_what_another_process_has_taken_is_not_chosen(planned):
    store = planned(3)
    mine, other = queue(store), queue(store)
    assert len(mine.waiting(EVERYTHING)) == 6  # known before the other takes some
    first = other.next(PAIRS, (), 0)
    assert len(claim(store, first)) == 2
    second = mine.next(PAIRS, (), 0)
    assert len(claim(store, second)) == 2
    assert not {run.run_id for run in first.runs} & {run.run_id for run in second.runs}


def test_what_comes_back_is_chosen_again_and_within_its_limit(planned):
    store = planned(2)
    mine = queue(store)
    claims = claim(store, mine.next(PAIRS, (), 0))
    store.release(claims, pack_limit=1)  # as another process might, so nobody says read_again
    rest = [mine.next(PAIRS, (), 0) for _ in range(3)]
    assert [len(choice.runs) for choice in rest] == [2, 1, 1]
    assert {run.run_id for choice in rest[1:] for run in choice.runs} == set(claims)
    assert mine.next(PAIRS, (), 0) is not None, "the store still calls them todo"


def test_a_limit_given_meanwhile_is_kept(planned):
    store = planned(1)
    mine = queue(store)
    assert len(mine.waiting(EVERYTHING)) == 2
    claims = store.claim([entry.run_id for entry in store.todo()], "other", 60)
    store.release(claims, pack_limit=1)
    assert len(mine.next(PAIRS, (), 0).runs) == 1


def test_checkpoints_are_looked_for_once_an_attempt(planned, monkeypatch):
    store, searches = planned(3), []
    find = checkpoint.find
    monkeypatch.setattr(
        saved_runs.checkpoint, "find", lambda *arguments: searches.append(1) or find(*arguments)
    )
    mine = queue(store)
    for attempt in range(3):
        choice = mine.next(PAIRS, (), 0)
        if attempt < 2:
            store.release(claim(store, choice))
            mine.read_again()
    # Nothing was ever begun; then one attempt of the first pack came back, then another.
    assert len(searches) == 3
    mine.next(PAIRS, (), 0)
    assert len(searches) == 3


def test_runs_that_share_the_data_that_are_there_come_first(planned, make_run, tmp_path):
    runs = [
        make_run({"task.test_rows": rows, "model.width": width})
        for rows, width in ((32, 16), (64, 16), (32, 24))
    ]
    with Store.create(tmp_path / "data") as store:
        engine.plan(store, Sweep("sweep", "", tuple(runs)))
        mine = queue(store)
        order = []
        while (choice := mine.next(PAIRS, (), 0)) is not None:
            mine.shapes.data(choice.runs[0])
            claim(store, choice)
            order.append(choice.runs[0].run_id)
    assert order == [runs[index].run_id for index in (0, 2, 1)]


def test_choosing_from_a_selection_looks_at_each_run_once(planned, monkeypatch):
    store, selected = planned(8), []
    select = WaitingRuns.select
    monkeypatch.setattr(
        WaitingRuns, "select", lambda *arguments: selected.append(1) or select(*arguments)
    )
    ids = [entry.run_id for entry in store.todo()]
    chosen = Selection(frozenset(ids[4:]), pack_size=2)
    mine, order = queue(store), []
    while (choice := mine.next(chosen, (), 0)) is not None:
        claim(store, choice)
        order += [run.run_id for run in choice.runs]
    assert order == ids[4:], "in the order of planning"
    # Once at first, and once more when none seemed to be left.
    assert len(selected) <= 2
    assert [run.run_id for run in mine.next(PAIRS, (), 0).runs] == ids[:2]


def test_a_selection_sees_what_others_took_and_gave_back(planned):
    store = planned(2)
    ids = [entry.run_id for entry in store.todo()]
    chosen, mine = Selection(frozenset(ids), pack_size=2), queue(store)
    assert len(mine.waiting(chosen)) == 4
    taken = store.claim(ids[:2], "other", 60)
    assert [run.run_id for run in mine.next(chosen, (), 0).runs] == ids[2:]
    store.release(taken, pack_limit=1)
    mine.read_again()
    assert len(mine.next(chosen, (), 0).runs) == 1


def test_shapes_are_compiled_ahead_in_their_order_and_as_selected(planned):
    store = planned(4)
    ids = [entry.run_id for entry in store.todo()]
    mine = queue(store)
    asked = Selection(frozenset(ids[3:4]), later=frozenset(ids[5:]))
    assert [run.run_id for run in mine.next_shapes(asked)] == [ids[3], ids[5], ids[6]]
    assert [run.run_id for run in mine.next_shapes(EVERYTHING)] == ids[::2]


def in_training(runs, evaluations: int = 1, limit: int | None = None) -> SimpleNamespace:
    """What the queue reads of a pack."""
    return SimpleNamespace(
        kind=kind_of(runs[0]),
        runs=runs,
        claims={run.run_id: 1 for run in runs},
        evaluations=evaluations,
        shape_id=runs[0].shape_id,
        limit=limit,
    )


@pytest.mark.parametrize(("limit", "joining"), [(None, 1), (2, 1), (1, 0)])
def test_a_run_joins_those_of_its_shape_within_their_limit(planned, limit, joining):
    store = planned(1)
    mine = queue(store)
    first = mine.next(Selection(pack_size=1), (), {})
    claim(store, first)
    pack = in_training(first.runs, limit=limit)
    choice = mine.next(Selection(pack_size=8), [pack], {pack.kind: 8})
    assert (len(choice.runs) if choice else 0) == joining


@pytest.mark.parametrize(
    ("alone", "limit", "evaluated", "begin"),
    [
        (None, None, True, 2),
        (None, 1, True, 1),  # a run that may not train beside more
        ("in training", None, True, 0),
        ("waiting", None, True, 0),
        (None, None, False, 0),
    ],
)
def test_what_begins_beside_another_shape(planned, alone, limit, evaluated, begin):
    store = planned(2)
    mine, ids = queue(store), [entry.run_id for entry in store.todo()]
    store.release(store.claim(ids[2:], "other", 60), pack_limit=limit)
    first = mine.next(PAIRS, (), {})
    claim(store, first)
    there = first.runs[0]
    pack = in_training(first.runs, evaluations=int(evaluated))
    if alone is not None:
        other = mine.waiting(EVERYTHING).get(ids[2]).run
        mine.keep_alone({"in training": there, "waiting": other}[alone].shape_id)
    choice = mine.next(EVERYTHING, [pack], {pack.kind: 2})
    assert [run.run_id for run in choice.runs] == ids[2 : 2 + begin] if begin else choice is None


def test_a_problem_is_told_once_however_often_it_is_met(planned):
    store, heard = planned(1), []
    mine = queue(store)
    mine.listen = heard.append
    run = next(mine.next_shapes(EVERYTHING))
    for _ in range(3):
        mine.leave(run)
    assert len(heard) == 1
    assert [note.text for note in store.notes() if note.kind == "memory"] == [heard[0].text]
