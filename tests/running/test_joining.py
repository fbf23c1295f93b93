"""Rounds of searches join runs in training: which, when, and that nothing about a result or about
the choice of runs depends on it.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from workers_made import SWEEP, results

from recollect.rows import Evaluation
from recollect.running import engine, spending
from recollect.running.budget import Budget
from recollect.running.events import Advanced, Event, PackStarted, RunEnded, SearchRound
from recollect.running.planning.order import order_of, remember_search
from recollect.running.planning.priority import Stage
from recollect.running.processes.spread import Home
from recollect.running.shapes import Shapes
from recollect.running.spending import joining_stage, spend, train_stages
from recollect.running.worker import Worker
from recollect.spec.sweep import Sweep, parse_sweep
from recollect.store import Result, Store
from recollect.training.early import EarlyDecisions
from recollect.training.environment import device_name
from recollect.training.population import Population

# Two cells of 14 runs; those of width 8 end after 12 steps, the others after 40.
CELLS = SWEEP.replace(
    "seed = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]",
    """
seed = [0, 1]
model.width = [8, 16]
train.lr = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1]
""",
).replace("lr = 1e-2\n", "", 1)


@pytest.fixture
def search(tmp_path: Path, monkeypatch) -> Callable[..., list[Event]]:
    def decide(self, run, evaluation):
        return "solved" if evaluation.step >= {8: 12, 16: 40}[run.model.width] else None

    monkeypatch.setattr(EarlyDecisions, "decide", decide)

    def train(
        name: str, joins: bool = True, budget: Budget | None = None, side_by_side: bool = True
    ) -> list[Event]:
        """Search both cells for their best scores; return the events."""
        heard: list[Event] = []
        with Store.create(tmp_path / name) as store:
            engine.plan(store, parse_sweep(CELLS, name="cells"))
            remember_search(store, ["cells"], "best")
            choose = order_of(store, budget is not None, heard.append, wanted=16)
            worker = Worker(
                *(store, tmp_path / name, torch.device("cpu"), heard.append),
                side_by_side=side_by_side,
                threads=1,
            )
            if budget is None:
                train_stages(worker, choose, joins)
            else:
                assert spend(worker, budget, choose, joins)
        return heard

    return train


def width(event: PackStarted | RunEnded) -> int:
    return (event.runs[0] if isinstance(event, PackStarted) else event.run).model.width


def rounds_before_the_wide_cell_ends(heard: list[Event]) -> int:
    """Packs of the narrow cell that began before the first wide run ended."""
    end = next(i for i, e in enumerate(heard) if isinstance(e, RunEnded) and width(e) == 16)
    return sum(isinstance(event, PackStarted) and width(event) == 8 for event in heard[:end])


@pytest.mark.parametrize("minutes", [None, 1e6])
def test_a_cell_goes_on_while_another_still_trains_and_nothing_changes(search, tmp_path, minutes):
    budget = Budget(minutes, 60 * minutes, lambda: 0.0) if minutes else None
    apart = search("apart", joins=False, budget=budget)
    joining = search("joining", budget=budget)
    assert rounds_before_the_wide_cell_ends(apart) == 1
    assert rounds_before_the_wide_cell_ends(joining) > 2
    assert results(tmp_path / "apart") == results(tmp_path / "joining")
    told = [event.text for event in joining if isinstance(event, SearchRound)]
    assert len(told) == len(set(told)), "each text once"


@pytest.mark.parametrize(("joins", "count"), [(True, 1), (False, 2)])
def test_what_joins_later_is_not_measured_first(search, monkeypatch, joins, count):
    """The device would train nothing meanwhile."""
    measured: list[int] = []
    measure = Shapes.measure
    monkeypatch.setattr(
        Shapes,
        "measure",
        lambda self, runs: measured.append(runs[0].model.width) or measure(self, runs),
    )
    search("out", joins, Budget(1.0, 60.0, lambda: 0.0))
    assert len(measured) == count


def test_nothing_joins_where_packs_do_not_train_side_by_side(search, tmp_path):
    one_by_one = search("one", side_by_side=False)
    assert rounds_before_the_wide_cell_ends(one_by_one) == 1
    search("beside")
    assert results(tmp_path / "one") == results(tmp_path / "beside")


def test_what_should_not_end_in_time_does_not_join(search, monkeypatch):
    """Within a budget of which the runs in training take everything."""
    monkeypatch.setattr(spending, "SAFETY", 0.5)
    now = [0.0]
    monkeypatch.setattr(
        spending._Spending, "_run_s", lambda self, run: 10.0 if run.model.width == 8 else 1e-9
    )
    few = search("few", budget=Budget(1.0, 60.0, lambda: now[0]))
    joined = rounds_before_the_wide_cell_ends(few)
    assert joined > 2  # 30 s are left for three at a time
    now[0] = 41.0  # 19 s left, of which half is planned with
    none = search("none", budget=Budget(1.0, 60.0, lambda: now[0]))
    assert rounds_before_the_wide_cell_ends(none) == 1


@pytest.mark.parametrize(
    ("training", "joining"), [(0, 4), (13, 4), (14, 2), (15, 2), (16, 0), (20, 0)]
)
def test_a_round_joins_as_a_whole_while_there_is_a_place(store, training, joining):
    """Two cells of two runs: a pack of one run would take nearly as long as one of two."""
    remember_search(store, ["cells"], "edges")
    worker = SimpleNamespace(
        store=store,
        device=torch.device("cpu"),
        side_by_side=True,
        training=training,
        left_in_training=[],
        queue=SimpleNamespace(home=Home()),
    )
    choose = order_of(store, within_budget=True, wanted=1)
    known = spending._Spending(worker, Budget(1.0, 1e9, lambda: 0.0), choose, joins=True)
    selection = known.join()
    assert (len(selection.run_ids) if selection else 0) == joining


@pytest.mark.parametrize(
    ("training", "steps_left", "left_s", "joining"),
    [
        (0, 0, 65.0, 4),
        (0, 0, 45.0, 2),  # two that wait take 20 s
        (0, 10, 45.0, 1),  # and what trains takes 10 s
        (0, 20, 45.0, 0),
        (13, 0, 65.0, 4),
        (14, 0, 65.0, 0),  # those that wait have the last places
    ],
)
def test_what_waits_and_what_trains_have_their_time_and_place_before_others_join(
    store, monkeypatch, training, steps_left, left_s, joining
):
    """Runs of 10 s: two join and wait, then up to four more of their shape."""
    monkeypatch.setattr(spending._Spending, "_run_s", lambda self, run: 10.0)
    monkeypatch.setattr(spending._Spending, "_seconds", lambda self, run, steps: float(steps))
    ids = [row.run_id for row in store.rows() if row.spec["model"]["width"] == 8][:6]
    rounds = iter([ids[:2], ids[2:]])
    worker = SimpleNamespace(
        store=store,
        device=torch.device("cpu"),
        side_by_side=True,
        training=training,
        left_in_training=[(None, steps_left)],
        queue=SimpleNamespace(home=Home()),
    )
    budget = Budget(1.0, left_s / spending.SAFETY, lambda: 0.0)
    known = spending._Spending(worker, budget, lambda _: Stage("round", tuple(next(rounds))), True)
    assert known.join().run_ids == {*ids[:2]}
    second = known.join()
    assert (second.run_ids if second else {*ids[:2]}) == {*ids[: 2 + joining]}


@pytest.mark.parametrize(("made", "seconds"), [(None, 40.0), (40, 40.0), (10, 10.0)])
def test_runs_that_end_early_leave_time_to_others(tmp_path, make_run, made, seconds):
    """Forty steps of a second each: by the share of their steps that ended runs made."""
    ended, other = (make_run({"seed": seed, "train.steps": 40}) for seed in (1, 2))
    with Store.create(tmp_path) as store:
        engine.plan(store, Sweep("one", "", (ended, other)))
        if made is not None:
            claims = store.claim([ended.run_id], "test", 60.0)
            last = Evaluation(made, 1.0, 1.0, 1.0, 1.0)
            result = Result(*claims.popitem(), "done", made, 1.0, last)
            store.finish([replace(result, device=device_name(torch.device("cpu")))])
        worker = Worker(store, tmp_path, torch.device("cpu"), side_by_side=True)
        known = spending._Spending(worker, Budget(1.0, 60.0), order_of(store, True), joins=True)
        known._speeds.measure(other, 1.0)
        assert known._run_s(other) == seconds


@pytest.mark.parametrize(("device", "seconds"), [(None, 0.05), ("another", None)])
def test_the_speed_of_what_joins_is_that_of_stored_runs_on_the_same_device(
    tmp_path, make_run, device, seconds
):
    ended, other = (make_run({"seed": seed, "train.steps": 40}) for seed in (1, 2))
    cpu = torch.device("cpu")
    with Store.create(tmp_path) as store:
        engine.plan(store, Sweep("one", "", (ended, other)))
        claims = store.claim([ended.run_id], "test", 60.0)
        result = Result(*claims.popitem(), "done", 20, 1.0, Evaluation(20, 1.0, 1.0, 1.0, 1.0))
        store.finish([replace(result, device=device or device_name(cpu))])
        worker = Worker(store, tmp_path, cpu, side_by_side=True)
        known = spending._Spending(worker, Budget(1.0, 60.0), order_of(store, True), joins=True)
        assert known._speeds.is_known(other) == (seconds is not None)
        assert known._speeds.seconds(other) == (seconds or pytest.approx(0, abs=1e-2))


@pytest.fixture
def store(tmp_path: Path):
    with Store.create(tmp_path / "rows") as store:
        engine.plan(store, parse_sweep(CELLS, name="cells"))
        yield store


def test_a_cell_whose_round_still_waits_has_no_other(store):
    remember_search(store, ["cells"], "best")
    choose, rows = order_of(store, within_budget=False, wanted=16), store.rows()
    first = choose(rows)
    assert first is not None
    assert {row.spec["model"]["width"] for row in rows if row.run_id in first.run_ids} == {8, 16}
    assert joining_stage(rows, frozenset(first.run_ids), choose) is None
    of_wide = frozenset(
        row.run_id
        for row in rows
        if row.run_id in first.run_ids and row.spec["model"]["width"] == 16
    )
    joining = joining_stage(rows, of_wide, choose)
    assert joining is not None
    assert set(joining.run_ids) == set(first.run_ids) - of_wide


@pytest.mark.parametrize(
    ("name", "joins"), [("begun", False), ("coarse", False), ("rest", True), ("round", True)]
)
def test_what_joins(store, name, joins):
    """Which runs a coarse grid is followed by depends on all of it, so nothing joins it."""
    rows = store.rows()
    stage = Stage(name, (rows[0].run_id,))
    assert joining_stage(rows, frozenset(), lambda _: stage) == (stage if joins else None)
    assert joining_stage(rows, frozenset(), lambda _: None) is None


def test_a_round_is_joined_by_a_sweep_trained_in_full_and_by_the_rounds_after_it(store, make_run):
    """Neither waits until the device is empty."""
    whole = [make_run({"model.width": 24, "seed": seed}) for seed in (1, 2)]
    last = [make_run({"model.width": 40, "train.lr": lr}) for lr in (1e-4, 1e-3, 1e-2)]
    engine.plan(store, Sweep("whole", "", tuple(whole)))
    engine.plan(store, Sweep("last", "", tuple(last)))
    remember_search(store, ["cells", "last"], "best")
    remember_search(store, ["whole"], "all")
    choose, rows = order_of(store, within_budget=True, wanted=99), store.rows()
    widths = {row.run_id: row.spec["model"]["width"] for row in rows}
    stage = choose(rows)
    assert [widths[run_id] for run_id in stage.run_ids] == sorted(
        widths[run_id] for run_id in stage.run_ids
    )
    assert {widths[run_id] for run_id in stage.run_ids} == {8, 16, 24, 40}
    of_cells = frozenset(run_id for run_id in stage.run_ids if widths[run_id] < 24)
    joining = joining_stage(rows, of_cells, choose)
    assert {widths[run_id] for run_id in joining.run_ids} == {24, 40}
    alone = joining_stage(rows, frozenset(stage.run_ids) - {run.run_id for run in whole}, choose)
    assert (alone.name, set(alone.run_ids)) == ("rest", {run.run_id for run in whole})


def test_runs_that_ended_are_not_taken_for_waiting_ones(store):
    """A chosen run that has ended shows the search its score."""
    seen: list[str] = []
    rows = [replace(store.rows()[0], status="done"), *store.rows()[1:3]]
    joining_stage(
        rows,
        frozenset(row.run_id for row in rows[:2]),
        lambda shown: seen.extend(row.status for row in shown),
    )
    assert seen == ["done", "running", "todo"]


# ---- turns ----


def test_a_pack_whose_steps_still_wait_for_the_device_has_no_turn(work, monkeypatch):
    """While the device is behind with one, the others go on; then it does."""
    kinds = SWEEP.replace(", 2, 3, 4, 5, 6, 7, 8, 9]", "]\nmodel.width = [8, 16]")
    turns = iter(range(10**9))

    def is_ahead(self) -> bool:
        return self.members[0].model.width == 8 and self.step >= 8 and next(turns) < 12

    monkeypatch.setattr(Population, "is_ahead", is_ahead)
    heard = work("ahead", steps=lambda seed: 40, sweep=kinds)
    packs = {e.pack: e.runs[0].model.width for e in heard if isinstance(e, PackStarted)}
    made = [packs[event.pack] for event in heard if isinstance(event, Advanced)]
    assert max(len(streak) for streak in "".join(map("{:x}".format, made)).split("8")) >= 12
    monkeypatch.setattr(Population, "is_ahead", lambda self: False)
    work("in turn", steps=lambda seed: 40, sweep=kinds)
    assert results(work.folder / "ahead") == results(work.folder / "in turn")


def test_no_pack_waits_for_ever(work, monkeypatch):
    """If the device is behind with all of them, they are asked again."""
    asked = iter(range(10**9))
    monkeypatch.setattr(Population, "is_ahead", lambda self: next(asked) % 5 != 0)
    heard = work("behind", sweep=SWEEP.replace("[0, 1, 2", "[10, 11, 12, 0, 1, 2"))
    assert sum(isinstance(event, RunEnded) for event in heard) == 13


def test_a_population_on_a_cpu_is_never_ahead(make_run):
    from recollect.tasks.build import task_of

    run, device = make_run({}), torch.device("cpu")
    population = Population([run], task_of(run, device), device)
    for _ in range(3):
        population.train_step(population.next_rows())
        assert not population.is_ahead()
