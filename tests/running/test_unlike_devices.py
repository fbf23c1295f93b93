"""Devices that differ: in their memory, where what does not fit is left to a larger one; in their
kind, where what one has begun no other goes on with. Devices here are workers on one store.
"""

import contextlib
from collections import Counter
from itertools import count as count_up

import pytest
import torch

from recollect import api
from recollect.errors import Stopped
from recollect.running import engine
from recollect.running.events import Event, Remark, ignore
from recollect.running.pack_queue import EVERYTHING, Selection
from recollect.running.planning import memory, speed
from recollect.running.planning.cost import cost
from recollect.running.processes.devices import DeviceShare
from recollect.running.processes.parent import WorkerProcesses
from recollect.running.processes.spread import Home
from recollect.running.shapes import Shapes
from recollect.running.signals import never
from recollect.running.worker import Worker
from recollect.spec.sweep import Sweep
from recollect.store import Store
from recollect.training import environment
from recollect.training.population import Population

CPU = torch.device("cpu")


# ---- memory ----


def test_devices_have_packs_as_large_as_their_own_memory(tmp_path, make_runs, monkeypatch):
    runs = make_runs(12)
    one = cost(runs[0]).memory_bytes
    monkeypatch.setattr(speed, "seconds_per_step", lambda members, task, device: 1.0)
    monkeypatch.setattr(memory, "free_memory", lambda device: 100 * one)
    with Store.create(tmp_path / "out") as store:
        engine.plan(store, Sweep("sweep", "", tuple(runs)))
        three = int(3.5 * one / memory.MEMORY_SHARE)
        found = [
            Shapes(store, tmp_path, CPU, 1, processes, room, splits=False).pack_size(runs)
            for processes, room in ((1, None), (1, three), (20, None))
        ]
    assert found == [12, 3, 3]


def test_what_does_not_fit_is_left_to_a_larger_device(tmp_path, make_runs):
    """The small one trains what fits, and says what it leaves; the large one trains the rest."""
    runs = make_runs(2, 0, 0, 0, 0, 0, 0, 2)
    small, large = cost(runs[0]).memory_bytes, cost(runs[-1]).memory_bytes
    heard: list[object] = []
    with Store.create(tmp_path / "out") as store:
        engine.plan(store, Sweep("sweep", "", tuple(runs)))
        homes = dict.fromkeys((run.run_id for run in runs), 0)
        room = int((small + large) / 2 / memory.MEMORY_SHARE)
        for number, room_here in ((0, room), (1, None)):
            home = Home(number, homes, leaves_large=number == 0)
            with Worker(
                *(store, tmp_path / "out", torch.device("cpu", number), heard.append),
                threads=1,
                memory_bytes=room_here,
                home=home,
            ) as worker:
                worker.work()
            done = {row.spec["model"]["width"] for row in store.rows() if row.status == "done"}
            assert done == ({8} if number == 0 else {8, 64})
    assert [event.text for event in heard if isinstance(event, Remark)] == [
        "cpu:0: too small for attention width=64; left to a larger one"
    ]


def test_running_out_of_memory_limits_the_device_alone(tmp_path, make_runs, monkeypatch):
    """On a small device two do not fit and one does not either: no run fails, and none is limited
    for the large one.
    """
    runs = make_runs(4)
    heard: list[object] = []
    step = Population.train_step

    def exhausted(self, batch):
        if self.device.index == 0 and self.step == 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        step(self, batch)

    monkeypatch.setattr(Population, "train_step", exhausted)
    with Store.create(tmp_path / "out") as store:
        engine.plan(store, Sweep("sweep", "", tuple(runs)))
        homes = dict.fromkeys((run.run_id for run in runs), 0)
        for number in range(2):
            with Worker(
                *(store, tmp_path / "out", torch.device("cpu", number), heard.append),
                threads=1,
                home=Home(number, homes, leaves_large=number == 0),
            ) as worker:
                worker.work()
            limits = {entry.pack_limit for entry in store.todo()}
            assert limits == ({None} if number == 0 else set())
        assert store.counts()["done"] == 4
    said = [event.text for event in heard if isinstance(event, Remark)]
    assert said[-1] == "cpu:0: too small for attention width=8; left to a larger one"
    assert all(text.startswith("out of memory with ") for text in said[:-1])


# ---- kinds ----


def test_what_one_kind_of_device_has_begun_no_other_kind_goes_on_with(
    tmp_path, make_runs, monkeypatch
):
    """It trains everything else, and who is of that kind goes on; where nobody is, it is said."""
    monkeypatch.setattr(environment, "device_name", lambda device: f"kind {device.index}")
    runs = make_runs(4, 2)
    homes = dict.fromkeys((run.run_id for run in runs), 0)
    heard: list[Event] = []
    out = tmp_path / "out"

    def work(number: int, stop=never, selection=EVERYTHING) -> None:
        with Worker(
            *(store, out, torch.device("cpu", number), ignore, stop),
            threads=1,
            home=Home(number, homes),
        ) as worker:
            worker.work(selection)

    def parent(*kinds: str) -> WorkerProcesses:
        shares = [DeviceShare(f"cpu:{number}", kind=kind) for number, kind in enumerate(kinds)]
        return WorkerProcesses(out, shares, (), never, heard.append, homes)

    with Store.create(out) as store:
        engine.plan(store, Sweep("sweep", "", tuple(runs)))
        steps, begun = count_up(), frozenset(run.run_id for run in runs[:2])
        with pytest.raises(Stopped):
            work(0, lambda: 143 if next(steps) > 3 else 0, Selection(begun))
        work(1)
        rows = {row.run_id: row for row in store.rows()}
        assert {run_id for run_id, row in rows.items() if row.status == "todo"} == begun
        assert parent("kind 0", "kind 1")._begun_elsewhere(store) == {}
        one = parent("kind 1", "kind 2")
        monkeypatch.setattr(one, "_start", lambda assignment: None)
        one.work(store)
        assert [event.text for event in heard if isinstance(event, Remark)] == [
            "2 runs begun on kind 0, where nobody trains now: left, since bits would differ; go on "
            f"there, or here with `recollect resume {out} --allow-drift`"
        ]
        work(0)
        rows = {row.run_id: row for row in store.rows()}
        assert Counter((row.status, row.device, row.drift) for row in rows.values()) == {
            ("done", "kind 0", ()): 2,
            ("done", "kind 1", ()): 4,
        }
        alone = api.run(Sweep("sweep", "", tuple(runs)), tmp_path / "alone", device="cpu")
        assert {row.run_id: row.test_loss for row in alone.rows} == {
            run_id: row.test_loss for run_id, row in rows.items()
        }


def test_drift_that_is_allowed_leaves_nothing_to_other_kinds(tmp_path, make_runs, monkeypatch):
    monkeypatch.setattr(environment, "device_name", lambda device: f"kind {device.index}")
    runs = make_runs(2)
    steps = count_up()
    with Store.create(tmp_path) as store:
        engine.plan(store, Sweep("sweep", "", tuple(runs)))
        for number, stop in ((0, lambda: 143 if next(steps) > 3 else 0), (1, never)):
            home = Home(number, {run.run_id: 0 for run in runs})
            worker = Worker(
                *(store, tmp_path, torch.device("cpu", number), ignore, stop),
                threads=1,
                home=home,
                allow_drift=True,
            )
            with contextlib.suppress(Stopped), worker:
                worker.work()
        assert {row.drift for row in store.rows()} == {("from step 3: device kind 0 -> kind 1",)}
