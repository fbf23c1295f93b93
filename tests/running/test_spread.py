"""Runs on several devices: each compiles few shapes, nobody idles while something waits, and what
does not fit is left to a larger one. Devices here are queues on one store; those that are processes
are fault tests.
"""

import contextlib
import random
from collections import Counter
from collections.abc import Sequence
from itertools import count as count_up
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest
import torch

from recollect import api
from recollect.errors import Stopped
from recollect.running import engine
from recollect.running.events import Event, Remark, ignore
from recollect.running.pack_queue import EVERYTHING, PackQueue, Selection
from recollect.running.planning import memory, speed
from recollect.running.planning.cost import cost
from recollect.running.processes import child, count
from recollect.running.processes.child import Assignment, Said
from recollect.running.processes.count import plan_processes
from recollect.running.processes.devices import DeviceShare
from recollect.running.processes.parent import WorkerProcesses
from recollect.running.processes.spread import SMALLEST_PIECE, Home, spread_runs
from recollect.running.shapes import Shapes
from recollect.running.signals import never
from recollect.running.worker import Worker
from recollect.spec.run import RunSpec
from recollect.spec.sweep import Sweep
from recollect.store import Store
from recollect.training import environment
from recollect.training.population import Population

CPU = torch.device("cpu")


@pytest.fixture
def make_runs(make_run):
    """So many runs of each shape."""

    def make(*sizes: int) -> list[RunSpec]:
        return [
            make_run({"seed": seed, "model.width": 8 * (shape + 1)})
            for shape, size in enumerate(sizes)
            for seed in range(size)
        ]

    return make


def same_seconds(runs: Sequence[RunSpec]) -> dict[str, float]:
    return {run.shape_id: 1.0 for run in runs}


def sizes(runs: Sequence[RunSpec], homes: dict[str, int], processes: int) -> list[dict[int, int]]:
    """Of each process: how many runs of which width."""
    return [
        dict(Counter(run.model.width for run in runs if homes[run.run_id] == number))
        for number in range(processes)
    ]


def shares(*speeds: float) -> list[DeviceShare]:
    return [DeviceShare(f"cpu:{number}", speed=each) for number, each in enumerate(speeds)]


# ---- homes ----


@pytest.mark.parametrize(
    ("counts", "speeds", "expected"),
    [
        ((4, 4), (1, 1), [{8: 4}, {16: 4}]),  # no shape is cut
        ((8,), (1, 1), [{8: 4}, {8: 4}]),  # one would idle
        ((8,), (3, 1), [{8: 6}, {8: 2}]),
        ((2, 2, 8), (1, 1), [{8: 2, 16: 2, 24: 2}, {24: 6}]),
        ((12, 11, 1), (1, 1), [{8: 12}, {16: 11, 24: 1}]),
        ((23, 21), (1, 1), [{8: 23}, {16: 21}]),  # one run of 22 is no piece
        ((1,), (1, 1), [{8: 1}, {}]),
        ((3, 3, 3), (1, 1, 1), [{8: 3}, {16: 3}, {24: 3}]),
        ((9,), (1, 1, 1), [{8: 3}, {8: 3}, {8: 3}]),
    ],
)
def test_the_row_of_runs_is_cut_by_speed(make_runs, counts, speeds, expected):
    runs = make_runs(*counts)
    homes = spread_runs(runs, shares(*speeds), same_seconds(runs))
    assert sizes(runs, homes, len(speeds)) == expected


def test_a_shape_counts_as_long_as_it_takes(make_runs):
    runs = make_runs(6, 2)
    seconds = {run.shape_id: {8: 1.0, 16: 3.0}[run.model.width] for run in runs}
    assert sizes(runs, spread_runs(runs, shares(1, 1), seconds), 2) == [{8: 6}, {16: 2}]


@pytest.mark.parametrize("seed", range(30))
def test_any_spread_is_even_and_cuts_few_shapes(make_runs, seed):
    draw = random.Random(seed)
    runs = make_runs(*(draw.randint(1, 40) for _ in range(draw.randint(1, 12))))
    seconds = {run.shape_id: draw.uniform(0.1, 5.0) for run in runs}
    speeds = [draw.choice([1.0, 1.0, 2.5]) for _ in range(draw.randint(2, 5))]
    homes = spread_runs(runs, shares(*speeds), seconds)
    assert homes.keys() == {run.run_id for run in runs}
    compiled = {(homes[run.run_id], run.shape_id) for run in runs}
    assert len(compiled) <= len(seconds) + len(speeds) - 1
    total = sum(seconds[run.shape_id] for run in runs)
    largest = max(seconds.values())
    for number, own in enumerate(speeds):
        fair = total * own / sum(speeds)
        given = sum(seconds[run.shape_id] for run in runs if homes[run.run_id] == number)
        # Each end of a piece is rounded to a run, or to the end of its shape.
        assert abs(given - fair) <= 2 * (SMALLEST_PIECE * fair + largest)


# ---- what waits elsewhere ----


def test_a_process_takes_over_a_whole_shape_and_half_of_the_last_one(make_runs):
    runs = make_runs(4, 4, 4, 5)
    homes = {run.run_id: 1 if run.model.width < 32 else 2 for run in runs}
    home = Home(0, homes)
    assert not any(map(home.holds, runs))
    home.take_over(runs, ())
    assert [run.model.width for run in runs if home.holds(run)] == [24] * 4  # the last of the most
    home = Home(0, homes)
    home.take_over(runs[12:], ())
    assert [run.seed for run in runs if home.holds(run)] == [2, 3, 4]
    home = Home(0, homes)
    home.take_over(runs, {runs[0].shape_id})
    assert [(run.model.width, run.seed) for run in runs if home.holds(run)] == [(8, 2), (8, 3)]
    home.leave(runs[0].shape_id)
    assert not any(map(home.holds, runs))


def test_a_run_that_was_planned_since_is_at_home_everywhere(make_runs):
    first, second = make_runs(1, 1)
    assert Home(0, {first.run_id: 1}).holds(second)
    assert not Home(0, {first.run_id: 1}).holds(first)
    assert Home().holds(first)


class Devices:
    """Queues on one store, each with a clock: who is free first chooses next."""

    def __init__(self, store: Store, homes: dict[str, int], number: int, pack: int):
        folder = store.path.parent
        self.store, self.pack, self.chosen = store, pack, [[] for _ in range(number)]
        self.queues = [
            PackQueue(
                *(store, folder / "checkpoints", Shapes(store, folder, CPU, 1, splits=False)),
                ignore,
                Home(me, homes),
            )
            for me in range(number)
        ]

    def train(self, seconds) -> float:
        """When the last one ends."""
        clocks, ended = [0.0] * len(self.queues), 0.0
        free = set(range(len(self.queues)))
        while free:
            me = min(free, key=lambda number: clocks[number])
            queue = self.queues[me]
            queue.shapes.pack_size = lambda runs, taken=0, fixed=None: min(len(runs), self.pack)
            choice = queue.next(EVERYTHING, (), 0)
            if choice is None:
                free.discard(me)
                continue
            queue.shapes.compile(choice.runs[0])
            claims = self.store.claim([run.run_id for run in choice.runs], f"{me}", 60)
            assert len(claims) == len(choice.runs)
            self.chosen[me].append(choice.runs)
            clocks[me] += seconds(me, choice.runs)
            ended = max(ended, clocks[me])
        return ended


def compiled(chosen) -> list[set[int]]:
    return [{runs[0].model.width for runs in packs} for packs in chosen]


@pytest.fixture
def train(tmp_path, make_runs):
    def train(counts, processes, seconds, pack=64, speeds=None) -> tuple[Devices, float]:
        runs = make_runs(*counts)
        with Store.create(tmp_path / "out") as store:
            engine.plan(store, Sweep("sweep", "", tuple(runs)))
            homes = spread_runs(runs, shares(*(speeds or [1.0] * processes)), same_seconds(runs))
            devices = Devices(store, homes, processes, pack)
            took = devices.train(seconds)
            assert store.counts()["todo"] == 0
        trained = [run.run_id for packs in devices.chosen for runs in packs for run in runs]
        assert sorted(trained) == sorted({*trained}), "a run was chosen twice"
        assert len(trained) == sum(counts)
        return devices, took

    return train


def test_every_shape_is_compiled_once_where_they_are_as_long_as_planned(train):
    devices, took = train([6] * 8, 4, lambda me, runs: float(len(runs)))
    assert compiled(devices.chosen) == [{8, 16}, {24, 32}, {40, 48}, {56, 64}]
    assert took == 12


def test_whoever_has_ended_takes_over_whole_shapes(train):
    """The second device is ten times slower than its homes know."""
    devices, took = train([4] * 6, 2, lambda me, runs: len(runs) * (10.0 if me else 1.0))
    assert compiled(devices.chosen) == [{8, 16, 24, 40, 48}, {32}]
    assert took == 40


def test_the_last_shape_is_shared_where_its_packs_are_small(train):
    devices, took = train([2, 16], 2, lambda me, runs: len(runs) * (1.0 if me else 0.1), pack=2)
    assert compiled(devices.chosen) == [{8, 16}, {16}]
    assert took <= 3


def test_a_sweep_of_one_shape_keeps_all_busy(train):
    devices, took = train([32], 4, lambda me, runs: 1.0)
    assert [len(runs) for packs in devices.chosen for runs in packs] == [8] * 4
    assert took == 1


def test_of_a_selection_a_process_takes_its_own_then_what_waits_elsewhere(tmp_path, make_runs):
    """What is at home here and not selected hides nothing."""
    runs = make_runs(2, 4)
    homes = {run.run_id: int(run.model.width == 16) for run in runs}
    with Store.create(tmp_path / "out") as store:
        engine.plan(store, Sweep("sweep", "", tuple(runs)))
        queue = Devices(store, homes, 1, 64).queues[0]
        queue.shapes.pack_size = lambda runs, taken=0, fixed=None: len(runs)
        selection = Selection(frozenset(run.run_id for run in runs[1:]))
        chosen = []
        while (choice := queue.next(selection, (), 0)) is not None:
            chosen.append(sorted((run.model.width, run.seed) for run in choice.runs))
            store.claim([run.run_id for run in choice.runs], "me", 60)
        assert chosen == [[(8, 1)], [(16, 2), (16, 3)], [(16, 1)], [(16, 0)]]
        assert [entry.run_id for entry in store.todo()] == [runs[0].run_id]


def test_what_a_process_prefers_of_a_stage(make_runs):
    first, second, third = make_runs(1, 1, 1)
    home = Home(0, {first.run_id: 0, second.run_id: 1, third.run_id: 1})
    assert home.prefer([third, first]) == [first]
    assert home.prefer([third, second]) == [third, second]
    home.leave(third.shape_id)
    assert home.prefer([third, second]) == [second]
    assert home.prefer([third]) == []


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


# ---- how many, and why not more ----


class Planned:
    def __init__(self, runs):
        self.runs = runs

    def todo(self):
        return [SimpleNamespace(spec=run.canonical_json()) for run in self.runs]


def test_one_process_a_device_where_it_is_worth_it(make_runs, monkeypatch):
    two = [torch.device("cpu", number) for number in range(2)]
    runs = Planned(make_runs(4, 4))
    monkeypatch.setattr(count, "WORTHWHILE_S", 0)
    plan = plan_processes(two, 0, runs, {})
    assert [share.device for share in plan.shares] == ["cpu:0", "cpu:1"]
    assert Counter((plan.homes or {}).values()).keys() == {0, 1}
    assert len(plan_processes(two, 0, Planned(make_runs(1)), {}).shares) == 1
    alone = plan_processes(two, 0, runs, {}, "a mixer")
    assert (len(alone.shares), alone.reason) == (1, "a mixer: cpu:0 alone trains")
    monkeypatch.setattr(count, "WORTHWHILE_S", 1e9)
    short = plan_processes(two, 0, runs, {})
    assert (len(short.shares), short.reason) == (1, "there is little to do: cpu:0 alone trains")


# ---- what a process does ----


def test_a_process_trains_its_own_then_the_rest_and_keeps_a_tally(tmp_path, make_runs, monkeypatch):
    """The entry of a process, called in this one: alone it trains everything, what is at home
    elsewhere last.
    """
    monkeypatch.setattr(child, "Interrupts", lambda: SimpleNamespace(exit_code=lambda: 0))
    runs = make_runs(2, 2)
    with Store.create(tmp_path) as store:
        engine.plan(store, Sweep("sweep", "", tuple(runs)))
    homes = {run.run_id: int(run.model.width == 8) for run in runs}
    receiver, sender = Pipe(duplex=False)
    tally = child.Tally()
    assignment = Assignment(tmp_path, DeviceShare("cpu:1"), 1, (), number=0, homes=homes)
    child.train_in_process(assignment, sender, tally)
    assert (tally.run_steps, tally.ended, tally.shapes) == (4 * runs[0].train.steps, 4, 2)
    sender.close()
    assert [receiver.recv(), receiver.recv()] == [Said.STARTED, Said.ENDED]
    with Store.open(tmp_path, read_only=True) as store:
        rows = {row.run_id: row for row in store.rows()}
    assert {(row.status, row.device, row.threads) for row in rows.values()} == {("done", "cpu", 1)}
