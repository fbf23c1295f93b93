"""Runs on several devices: each compiles few shapes, and nobody idles while something waits.

Devices here are queues on one store; those that are processes are fault tests.
"""

import random
from collections import Counter
from collections.abc import Sequence
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest
import torch

from recollect.running import engine
from recollect.running.events import ignore
from recollect.running.pack_queue import EVERYTHING, PackQueue, Selection
from recollect.running.processes import child, count
from recollect.running.processes.child import Assignment, Said
from recollect.running.processes.count import plan_processes
from recollect.running.processes.devices import DeviceShare
from recollect.running.processes.spread import SMALLEST_PIECE, Home, spread_runs
from recollect.running.shapes import Shapes
from recollect.spec.run import RunSpec
from recollect.spec.sweep import Sweep
from recollect.store import Store

CPU = torch.device("cpu")


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
