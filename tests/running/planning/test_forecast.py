"""What a large sweep would cost: few shapes are measured, within a time, and the others scaled from
those of their kind.
"""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from shown import rendered

from recollect.cli.speed_tables import forecast_table, spread_text
from recollect.reports.paper.presets import read_preset
from recollect.rows import RunRow
from recollect.running.planning import forecast as forecasting
from recollect.running.planning import memory, speed
from recollect.running.planning.cost import cost, evaluation_stretch
from recollect.running.planning.forecast import Forecast, forecast, step_seconds
from recollect.running.planning.threads import choose_threads
from recollect.running.processes.devices import DeviceShare
from recollect.spec.run import RunSpec
from recollect.training.early import EarlyDecisions
from recollect.training.loop import train_population

CPU = torch.device("cpu")
PER_OPERATION = {"attention": 1e-9, "mamba": 5e-9}


def work(run: RunSpec) -> float:
    """Operations of a run-step with its share of the evaluations."""
    return cost(run).operations * evaluation_stretch(run)


@pytest.fixture
def device(monkeypatch) -> list[tuple[str, int, int]]:
    """A device whose speed is known: time per operation by mixer, nothing gained by training
    together. What it was asked to measure, and not only once more.
    """
    asked: list[tuple[str, int, int]] = []

    def seconds(members, task, device, patience_s=0.0):
        run = members[0]
        if not patience_s:
            asked.append((run.model.mixer.name, run.train.batch, len(members)))
        return PER_OPERATION[run.model.mixer.name] * cost(run).operations * len(members)

    monkeypatch.setattr(speed, "seconds_per_step", seconds)
    monkeypatch.setattr(memory, "pack_size", lambda todo, *_: min(3, len(todo)))
    return asked


def test_a_shape_is_scaled_from_its_own_mixer(monkeypatch, make_run, device):
    runs = [
        make_run({"model.mixer.name": mixer, "model.width": width})
        for width in (8, 32)
        for mixer in PER_OPERATION
    ]
    monkeypatch.setattr(forecasting, "MEASURED_SHAPES", 2)
    found = forecast(runs, set(), CPU)
    assert [entry.measured for entry in found] == [True, True, False, False]
    assert [entry.scaled for entry in found] == [False, False, True, True]
    for entry in found:
        run = entry.example
        expected = PER_OPERATION[run.model.mixer.name] * work(run) * run.train.steps
        assert entry.seconds == pytest.approx(expected)


@pytest.mark.parametrize("evaluations", [1, 5])
@pytest.mark.parametrize(
    "task",
    [
        {"name": "mqar", "train_rows": 128, "test_rows": 50},
        {"name": "mqar", "data": "fresh", "test_rows": 50},
        {"name": "copying", "context": 64, "max_length": 8, "eval_lengths": [4, 9],
         "train_rows": 64, "test_rows": 24},
    ],
    ids=["a training set", "fresh rows", "two test lengths"],
)  # fmt: skip
def test_evaluations_are_in_a_forecast(make_run, make_population, device, task, evaluations):
    """The work of a whole training, counted while it is done: a row that is evaluated costs a third
    of one that is trained on, token by token.
    """
    run = make_run({"task": task, "train.steps": 5, "train.evaluations": evaluations})
    population, tokens = make_population([run]), Counter[str]()
    draw = population.task.batch

    def counted(split, *rest):
        batch = draw(split, *rest)
        tokens["train" if split == "train" else "evaluated"] += batch.tokens_BL.numel()
        return batch

    population.task.batch = counted
    for _ in train_population(population, EarlyDecisions()):
        pass
    assert tokens["evaluated"] > 0
    (entry,) = forecast([run], set(), CPU)
    steps_s = PER_OPERATION["attention"] * cost(run).operations * run.train.steps
    whole = 1 + tokens["evaluated"] / (3 * tokens["train"])
    assert entry.seconds == pytest.approx(steps_s * whole)


@pytest.mark.parametrize(
    ("steps", "again"), [(10_000, [0.5]), (4, [])], ids=["worth it", "too short to be"]
)
def test_on_a_cpu_the_faster_of_two_timings_counts(monkeypatch, make_run, steps, again):
    """The second one lasts for a share of the whole, at most."""
    asked, times = [], iter([0.3, 0.2])

    def seconds(members, task, device, patience_s=0.0):
        asked.append(patience_s)
        return next(times)

    monkeypatch.setattr(speed, "seconds_per_step", seconds)
    monkeypatch.setattr(memory, "pack_size", lambda *_: 1)
    monkeypatch.setattr(forecasting, "AGAIN_S", 1.0)
    run = make_run({"train.steps": steps})
    (entry,) = forecast([run], set(), CPU)
    assert asked == [0.0, *([1.0] if again else [])]
    assert entry.seconds == pytest.approx(steps * (0.2 if again else 0.3) * evaluation_stretch(run))


def test_a_cpus_threads_are_reckoned_not_timed(monkeypatch, make_run):
    """They compute while they wait for one another."""
    counts: list[int] = [2]
    timed_with: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: counts[-1])
    monkeypatch.setattr(torch, "set_num_threads", counts.append)

    def seconds(*_, **__):
        timed_with.append(torch.get_num_threads())
        return 1.4

    monkeypatch.setattr(speed, "seconds_per_step", seconds)
    monkeypatch.setattr(memory, "pack_size", lambda *_: 1)
    large = make_run({"model.width": 64, "train.batch": 64, "train.steps": 3})
    assert choose_threads(large, 2) == 2
    (entry,) = forecast([large], set(), CPU)
    assert entry.seconds == pytest.approx(3 * 1.0 * evaluation_stretch(large))
    assert timed_with == [1]
    assert counts[-1] == 2, "put back"


def test_what_would_take_long_is_looked_at_with_fewer_rows(monkeypatch, make_run, device):
    runs = [make_run({"seed": seed, "train.batch": 128, "train.steps": 5}) for seed in range(4)]
    step = cost(runs[0]).operations
    monkeypatch.setitem(
        speed.GUESSED_S, "cpu", 4.0 / forecasting.TWO_STEPS / step
    )  # 4 s by that guess, 1 s wanted
    monkeypatch.setattr(forecasting, "MEASURE_S", 0.0)
    (entry,) = forecast(runs, set(), CPU)
    assert device == [("attention", 32, 2)]
    assert (entry.measured, entry.together, entry.runs) == (False, 2, 4)
    # Its operations are not quite in proportion to the rows, the time is to the operations.
    assert entry.seconds == pytest.approx(4 * 5 * work(runs[0]) * PER_OPERATION["attention"])


def test_rows_are_not_halved_for_ever(monkeypatch, make_run, device):
    monkeypatch.setitem(speed.GUESSED_S, "cpu", 1.0)
    monkeypatch.setattr(forecasting, "MEASURE_S", 0.0)
    forecast([make_run({"train.batch": 128})], set(), CPU)
    assert device == [("attention", forecasting.FEWEST_ROWS, 1)]


def test_the_best_pack_size_is_sought_only_where_that_is_quick(monkeypatch, make_run, device):
    runs = [make_run({"seed": seed}) for seed in range(4)]
    (quick,) = forecast(runs, set(), CPU)
    assert (quick.measured, quick.together) == (True, 2)  # two packs of two, not of three and one
    monkeypatch.setattr(memory, "pack_size", lambda *_: pytest.fail("sought"))
    monkeypatch.setitem(
        speed.GUESSED_S, "cpu", forecasting.MEASURE_S / 10 / work(runs[0])
    )  # two steps fit, forty do not
    monkeypatch.setattr(forecasting, "FIRST_S", 100.0)
    (slow,) = forecast(runs, set(), CPU)
    assert (slow.measured, slow.together) == (True, 2)


def test_the_studys_scale_is_foretold_and_said_to_be_scaled(device):
    """Not with real time: nine shapes of 13 runs on a device that is known."""
    found = forecast(
        read_preset("fig1", "full", ["model.mixer=attention", "sweep.seed=[42]"]).runs, set(), CPU
    )
    assert [shape.runs for shape in found] == [13] * 9
    text = rendered(forecast_table(found), width=160)
    assert (
        text.splitlines()[-1].strip()
        == "time if no run ends early; ~ is scaled by operations from what was measured"
    )
    assert text.splitlines()[-2].split()[0] == "all"
    assert "~" in text.splitlines()[-2]


def test_on_several_devices_the_time_is_that_of_the_last_to_end(make_run):
    runs = [
        make_run({"model.width": width, "seed": seed}) for width in (8, 16) for seed in range(4)
    ]
    found = [
        Forecast(group[0], 4, 4, 4, 1, 1, seconds, True)
        for group, seconds in ((runs[:4], 4 * 600.0), (runs[4:], 4 * 1800.0))
    ]

    def together(*shares: DeviceShare) -> str:
        return spread_text(found, runs, shares)

    two = [DeviceShare("cuda:0"), DeviceShare("cuda:1")]
    # All of the first shape and one of the second, or three of the second: 70 or 90 minutes.
    assert together(*two) == "the table is for cuda:0 alone; cuda:0, cuda:1 together: 1.5 h"
    # The second one has half the speed: two of the second shape, which take it twice as long.
    slower = DeviceShare("cuda:1", speed=0.5)
    assert together(two[0], slower).endswith("together: 2 h")
    # Two processes on one device are no faster than one.
    shared = [DeviceShare("cuda:0", processes=2)] * 2
    assert together(*shared).endswith("cuda:0, cuda:0 together: 3 h")
    assert spread_text(found, (), two).endswith("together: 0 s")


def test_a_forecast_counts_what_is_left(monkeypatch, make_run):
    runs = [
        make_run({"model.width": width, "seed": seed, "train.steps": 10})
        for width in (8, 16)
        for seed in range(4)
    ]
    monkeypatch.setattr(memory, "pack_size", lambda todo, *_: min(3, len(todo)))
    monkeypatch.setattr(speed, "seconds_per_step", lambda members, *_, **__: 0.5 * len(members))
    finished = {runs[0].run_id, *(run.run_id for run in runs[4:])}
    threads = torch.get_num_threads()
    first, second = forecast(runs, finished, CPU)
    assert (first.runs, first.todo, first.together, first.populations, first.measured) == (
        4,
        3,
        3,
        1,
        True,
    )
    assert first.seconds == pytest.approx(3 * 10 * 0.5 * evaluation_stretch(runs[1]))
    assert first.memory_bytes == 3 * cost(runs[1]).memory_bytes
    assert (second.runs, second.todo, second.populations, second.seconds) == (4, 0, 0, 0.0)
    assert torch.get_num_threads() == threads


def test_shapes_beyond_the_measured_ones_are_scaled_by_their_operations(monkeypatch, make_run):
    runs = [make_run({"model.width": width}) for width in (8, 16, 32)]
    monkeypatch.setattr(forecasting, "MEASURED_SHAPES", 1)
    monkeypatch.setattr(memory, "pack_size", lambda *_: 1)
    monkeypatch.setattr(speed, "seconds_per_step", lambda *_, **__: 0.5)
    small, _, large = forecast(runs, set(), CPU)
    assert (small.measured, large.measured) == (True, False)
    ratio = cost(runs[2]).operations / cost(runs[0]).operations
    assert large.seconds == pytest.approx(small.seconds * ratio)


def test_a_finished_sweep_costs_nothing(make_run):
    run = make_run()
    (entry,) = forecast([run], {run.run_id}, CPU)
    assert (entry.todo, entry.seconds, entry.populations) == (0, 0.0, 0)


def test_which_shape_is_timed_is_told(make_run, device):
    runs = [make_run({"model.mixer.name": name}) for name in ("mamba", "attention", "attention")]
    told: list[tuple[int, int, str]] = []
    forecast(
        runs,
        set(),
        CPU,
        lambda done, of, run: told.append((done, of, run.model.mixer.name)),
    )
    assert sorted(told) == told
    assert [(done, of) for done, of, _ in told] == [(0, 2), (1, 2)]
    assert {name for *_, name in told} == {"mamba", "attention"}


# ---- before training ----


def row(run, status="todo", **more) -> RunRow:
    return RunRow(run.run_id, run.model_dump(mode="json"), status, "accuracy", 0.5, **more)


def test_one_small_shape_of_every_mixer_is_looked_at(monkeypatch, make_run, device):
    monkeypatch.setattr(forecasting, "LOOK_SHARE", 1e9)
    runs = [
        make_run({"model.mixer.name": name, "model.width": width, "train.lr": lr})
        for width in (32, 8)
        for name in PER_OPERATION
        for lr in (1e-3, 1e-2)
    ]
    found = step_seconds([row(run) for run in runs], CPU)
    narrow = [run for run in runs if run.model.width == 8 and run.train.lr == 1e-3]
    assert found == {
        run.shape_id: pytest.approx(PER_OPERATION[run.model.mixer.name] * work(run))
        for run in narrow
    }
    assert [(name, members) for name, _, members in device] == [("attention", 2), ("mamba", 2)]


def test_a_mixer_that_was_trained_here_is_known_already(monkeypatch, make_run, device):
    monkeypatch.setattr(forecasting, "LOOK_SHARE", 1e9)
    old, again, new = (make_run({"model.mixer.name": n, "seed": s}) for n, s in
                       (("attention", 1), ("attention", 2), ("mamba", 1)))  # fmt: skip
    ended = [
        row(old, "done", steps=10, wall_s=2.0, device="cpu"),
        row(again, "done", steps=30, wall_s=3.0, device="cpu"),
    ]
    found = step_seconds([*ended, row(new)], CPU)
    assert found[old.shape_id] == pytest.approx(5.0 / 40)
    assert [name for name, *_ in device] == ["mamba"]
    elsewhere = [replace(one, device="NVIDIA H200") for one in ended]
    assert set(step_seconds([*elsewhere, row(new)], CPU)) == set(), "one mixer, nothing known here"


def test_a_look_is_not_worth_the_wait_for_a_short_sweep(make_run, device):
    runs = [make_run({"model.mixer.name": name, "train.steps": 3}) for name in PER_OPERATION]
    assert step_seconds([row(run) for run in runs], CPU) == {}
    assert device == []


def test_a_look_that_fails_is_left_to_training(monkeypatch, make_run, device):
    monkeypatch.setattr(forecasting, "LOOK_SHARE", 1e9)
    monkeypatch.setitem(PER_OPERATION, "mamba", None)  # no number: it raises
    runs = [make_run({"model.mixer.name": name}) for name in PER_OPERATION]
    assert set(step_seconds([row(run) for run in runs], CPU)) == {runs[0].shape_id}
