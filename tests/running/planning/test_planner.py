"""Planning: what is counted is what is allocated, threads fit the batch, and a pack is as large as
it is worthwhile.
"""

import time

import pytest
import torch
from zoo import table

from recollect.mixers.registry import MIXERS
from recollect.model.model import Model
from recollect.running.planning import forecast as forecasting
from recollect.running.planning import planner
from recollect.running.planning.forecast import forecast
from recollect.tasks.build import build_task

CPU = torch.device("cpu")


# ---- cost ----


@pytest.mark.parametrize("mixer", MIXERS)
def test_counting_without_computing_counts_no_less(make_run, mixer):
    run = make_run({"model.mixer": table(mixer, 16)})
    shapes_only, computed = planner._count(run, torch.device("meta")), planner._count(run, CPU)
    assert planner.cost(run) == shapes_only
    assert (shapes_only.parameters, shapes_only.operations) == (
        computed.parameters,
        computed.operations,
    )
    assert computed.memory_bytes <= shapes_only.memory_bytes < 1.5 * computed.memory_bytes


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_cost_counts_the_models_parameters_and_grows_with_the_batch(make_run, mixer):
    costs = [
        planner.cost(make_run({"model.mixer": table(mixer, 16), "train.batch": batch}))
        for batch in (16, 32, 64)
    ]
    run = make_run({"model.mixer": table(mixer, 16)})
    model = Model(run.model, 1, run.task.label_vocabulary, run.task.longest)
    assert {cost.parameters for cost in costs} == {
        sum(parameter.numel() for parameter in model.parameters())
    }
    memory = [cost.memory_bytes for cost in costs]
    assert memory[2] - memory[1] == 2 * (memory[1] - memory[0]) > 0
    assert memory[0] > 5 * 4 * costs[0].parameters
    assert [cost.operations for cost in costs[1:]] == [
        2 * costs[0].operations,
        4 * costs[0].operations,
    ]


def test_operations_of_attention_by_hand(make_run):
    run = make_run({"model.depth": 3})
    tokens, labels, width = 32 * 16, 32 * 4, 16
    layer = 4 * width**2 + (16 + 1) * width + 2 * 4 * width**2
    assert planner.cost(run).operations == 3 * (3 * tokens * layer + labels * width * 32)


# ---- threads ----


@pytest.mark.parametrize(
    ("batch", "available", "used"),
    [(512, 16, 16), (512, 7, 4), (64, 16, 2), (96, 4, 1), (32, 8, 1), (21, 8, 1), (512, 1, 1)],
)
def test_threads_are_a_power_of_two_that_divides_the_batch_into_whole_blocks(
    make_run, batch, available, used
):
    run = make_run({"task.train_rows": 512, "train.batch": batch, "model.width": 1024})
    assert planner.use_threads(run, available) == torch.get_num_threads() == used


def test_a_small_step_has_one_thread(make_run):
    assert planner.use_threads(make_run({"train.batch": 64}), available=8) == 1


# ---- pack size ----


@pytest.fixture
def runs(make_run):
    return [make_run({"seed": seed, "train.steps": 100_000}) for seed in range(20)]


def sized(monkeypatch, runs, seconds) -> tuple[int, list[int]]:
    """The chosen size, and the sizes that were measured, if a step of n runs takes seconds(n)."""
    asked = []

    def measure(members, task, device):
        asked.append(len(members))
        return seconds(len(members))

    monkeypatch.setattr(planner, "seconds_per_step", measure)
    return planner.pack_size(runs, None, CPU), asked


def test_a_pack_grows_while_it_pays(monkeypatch, runs):
    assert sized(monkeypatch, runs, lambda n: 1.0) == (20, [2, 4, 8, 16, 20])
    assert sized(monkeypatch, runs, lambda n: max(1.0, n / 8)) == (8, [2, 4, 8, 16])
    assert sized(monkeypatch, runs, lambda n: float(n)) == (2, [2, 4])


def test_a_gain_too_small_does_not_pay(monkeypatch, runs):
    assert sized(monkeypatch, runs, lambda n: n / (1 + 0.02 * (n > 2)))[0] == 2


def test_memory_bounds_a_pack(monkeypatch, runs):
    one = planner.cost(runs[0]).memory_bytes
    monkeypatch.setattr(
        planner, "free_memory", lambda device: int(6.5 * one / planner.MEMORY_SHARE)
    )
    assert sized(monkeypatch, runs, lambda n: 1.0) == (6, [2, 4, 6])
    monkeypatch.setattr(planner, "free_memory", lambda device: one // 2)
    assert sized(monkeypatch, runs, lambda n: 1.0) == (1, [1])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_runs_are_one_pack(monkeypatch, runs, count):
    assert sized(monkeypatch, runs[:count], lambda n: 1.0)[0] == count


def test_measuring_does_not_cost_more_than_a_share_of_the_work(monkeypatch, make_run):
    short = [
        make_run({"seed": seed, "train.steps": 1, "train.evaluations": 1}) for seed in range(20)
    ]

    def slow(n: int) -> float:
        time.sleep(0.01)
        return 0.001

    assert sized(monkeypatch, short, slow) == (2, [2])


def test_a_step_is_timed_also_for_the_shortest_run(make_run):
    run = make_run({"train.steps": 1, "train.evaluations": 1})
    task = build_task(run.task, 0, run.train.batch, CPU)
    assert 0 < planner.seconds_per_step([run], task, CPU) < 10


# ---- memory measured on a GPU ----

CUDA = torch.device("cuda")  # a name: what is done on it is injected


def gpu(monkeypatch, fixed: int, member: int, free: int) -> list[int]:
    """A GPU with so much free memory, whose populations take `fixed + n * member` bytes; the sizes
    that are tried.
    """
    tried: list[int] = []
    monkeypatch.setattr(planner, "free_memory", lambda device: free)

    def measure(members, task, device):
        tried.append(len(members))
        return (
            fixed + member * len(members) + (10**9 if len(tried) == 1 else 0)
        )  # a library's workspace, once

    monkeypatch.setattr(planner, "allocated", measure)
    return tried


def test_a_pack_on_a_gpu_is_what_measured_memory_allows(monkeypatch, runs):
    counted = planner.cost(runs[0]).memory_bytes
    tried = gpu(
        monkeypatch,
        fixed=counted,
        member=counted // 2,
        free=int(6.1 * counted / planner.MEASURED_SHARE),
    )
    assert planner.need(runs, None, CUDA, planner.allocated) == planner.Need(
        counted // 2, counted, planner.MEASURED_SHARE
    )
    assert tried == [2, 2, 4]
    assert planner.pack_size(runs, None, CUDA, planner.allocated) == 10
    assert planner.pack_size(runs[:3], None, CUDA, planner.allocated) == 3


def test_what_is_too_large_to_try_is_counted(monkeypatch, runs):
    counted = planner.cost(runs[0]).memory_bytes
    tried = gpu(monkeypatch, 0, counted // 2, free=int(3.5 * counted / planner.MEMORY_SHARE))
    assert planner.pack_size(runs, None, CUDA, planner.allocated) == 3
    assert tried == []


def test_a_measurement_that_says_nothing_cannot_promise_the_moon(monkeypatch, runs):
    gpu(monkeypatch, 0, 0, free=10**9)
    weights_and_moments = 4 * 4 * planner.cost(runs[0]).parameters
    assert planner.need(runs, None, CUDA, planner.allocated).member == weights_and_moments


def test_on_a_cpu_nothing_is_tried_out(monkeypatch, runs):
    tried = gpu(monkeypatch, 0, 1, free=10**9)
    assert planner.need(runs, None, CPU, planner.allocated) == planner.Need(
        planner.cost(runs[0]).memory_bytes
    )
    assert tried == []


@pytest.mark.parametrize(
    ("runs", "largest", "size"),
    [
        (65, 60, 33),
        (65, 65, 65),
        (65, 100, 65),
        (12, 8, 6),
        (7, 3, 3),
        (4, 3, 2),
        (1, 5, 1),
        (5, 1, 1),
    ],
)
def test_packs_are_about_equally_large(runs, largest, size):
    assert planner.evenly(runs, largest) == size
    packs = []
    while runs:
        packs.append(planner.evenly(runs, largest))
        runs -= packs[-1]
    assert max(packs) <= largest
    assert max(packs) - min(packs) <= 1


@pytest.mark.parametrize(
    ("waiting", "taken", "largest", "places", "begun"),
    [
        (10, 0, 4, 0, 4),  # three packs of about the same size
        (6, 4, 4, 4, 0),  # full
        (6, 3, 4, 4, 1),  # one has ended
        (60, 30, 40, 32, 0),  # two have: not yet worth a start
        (60, 22, 40, 32, 10),
        (3, 38, 60, 40, 3),  # few wait, and all of them fit
        (32, 24, 60, 33, 32),  # what is left fits as a whole: more than ever trained at once
        (9, 5, 4, 6, 0),  # more train than may, after memory ran out
    ],
)
def test_how_many_join(waiting, taken, largest, places, begun):
    assert planner.joining(waiting, taken, largest, places) == begun


# ---- operations ----


@pytest.mark.parametrize("mixer", MIXERS)
def test_operations_are_told_without_tracing(make_run, mixer):
    run = make_run({"model.mixer": table(mixer, 16)})
    assert planner.operations(run) == planner.cost(run).operations


def test_free_memory_is_a_sensible_number():
    assert 10**6 < planner.free_memory(CPU) < 10**14


# ---- forecast ----


def test_a_forecast_counts_what_is_left(monkeypatch, make_run):
    runs = [
        make_run({"model.width": width, "seed": seed, "train.steps": 10})
        for width in (8, 16)
        for seed in range(4)
    ]
    monkeypatch.setattr(planner, "pack_size", lambda todo, task, device: min(3, len(todo)))
    monkeypatch.setattr(
        planner, "seconds_per_step", lambda members, task, device: 0.5 * len(members)
    )
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
    assert first.seconds == pytest.approx(3 * 10 * 0.5)
    assert first.memory_bytes == 3 * planner.cost(runs[1]).memory_bytes
    assert (second.runs, second.todo, second.populations, second.seconds) == (4, 0, 0, 0.0)
    assert torch.get_num_threads() == threads


def test_shapes_beyond_the_measured_ones_are_scaled_by_their_operations(monkeypatch, make_run):
    runs = [make_run({"model.width": width}) for width in (8, 16, 32)]
    monkeypatch.setattr(forecasting, "MEASURED_SHAPES", 1)
    monkeypatch.setattr(planner, "pack_size", lambda todo, task, device: 1)
    monkeypatch.setattr(planner, "seconds_per_step", lambda members, task, device: 0.5)
    small, _, large = forecast(runs, set(), CPU)
    assert (small.measured, large.measured) == (True, False)
    ratio = planner.cost(runs[2]).operations / planner.cost(runs[0]).operations
    assert large.seconds == pytest.approx(small.seconds * ratio)


def test_a_finished_sweep_costs_nothing(make_run):
    run = make_run()
    (entry,) = forecast([run], {run.run_id}, CPU)
    assert (entry.todo, entry.seconds, entry.populations) == (0, 0.0, 0)
