"""How many runs train together: as many as fit into memory and as it is worthwhile."""

import time

import pytest
import torch

from recollect.running.planning import memory, speed
from recollect.running.planning.cost import cost

CPU = torch.device("cpu")


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

    monkeypatch.setattr(speed, "seconds_per_step", measure)
    free = memory.free_memory(CPU)
    need = memory.estimate_need(runs, None, CPU, free)
    return memory.pack_size(runs, None, CPU, need, free), asked


def test_a_pack_grows_while_it_pays(monkeypatch, runs):
    assert sized(monkeypatch, runs, lambda n: 1.0) == (20, [2, 4, 8, 16, 20])
    assert sized(monkeypatch, runs, lambda n: max(1.0, n / 8)) == (8, [2, 4, 8, 16])
    assert sized(monkeypatch, runs, lambda n: float(n)) == (2, [2, 4])


def test_a_gain_too_small_does_not_pay(monkeypatch, runs):
    assert sized(monkeypatch, runs, lambda n: n / (1 + 0.02 * (n > 2)))[0] == 2


def test_memory_bounds_a_pack(monkeypatch, runs):
    one = cost(runs[0]).memory_bytes
    monkeypatch.setattr(memory, "free_memory", lambda device: int(6.5 * one / memory.MEMORY_SHARE))
    assert sized(monkeypatch, runs, lambda n: 1.0) == (6, [2, 4, 6])
    monkeypatch.setattr(memory, "free_memory", lambda device: one // 2)
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


# ---- memory measured on a GPU ----

CUDA = torch.device("cuda")  # a name: what is done on it is injected


def gpu(monkeypatch, fixed: int, member: int, free: int) -> list[int]:
    """A GPU with so much free memory, whose populations take `fixed + n * member` bytes;
    the sizes that are tried.
    """
    tried: list[int] = []
    monkeypatch.setattr(memory, "free_memory", lambda device: free)

    def measure(members, task, device):
        tried.append(len(members))
        return (
            fixed + member * len(members) + (10**9 if len(tried) == 1 else 0)
        )  # a library's workspace, once

    monkeypatch.setattr(memory, "measure_allocation", measure)
    return tried


def estimated(runs, device: torch.device = CUDA) -> memory.Need:
    free = memory.free_memory(device)
    return memory.estimate_need(runs, None, device, free, memory.measure_allocation)


def fitting(runs) -> int:
    return memory.pack_size(runs, None, CUDA, estimated(runs), memory.free_memory(CUDA))


def test_a_pack_on_a_gpu_is_what_measured_memory_allows(monkeypatch, runs):
    counted = cost(runs[0]).memory_bytes
    tried = gpu(
        monkeypatch,
        fixed=counted,
        member=counted // 2,
        free=int(6.1 * counted / memory.MEASURED_SHARE),
    )
    assert estimated(runs) == memory.Need(counted // 2, counted, memory.MEASURED_SHARE)
    assert tried == [2, 2, 4]
    assert fitting(runs) == 10
    assert fitting(runs[:3]) == 3


def test_what_is_too_large_to_try_is_counted(monkeypatch, runs):
    counted = cost(runs[0]).memory_bytes
    tried = gpu(monkeypatch, 0, counted // 2, free=int(3.5 * counted / memory.MEMORY_SHARE))
    assert fitting(runs) == 3
    assert tried == []


def test_a_measurement_that_says_nothing_cannot_promise_the_moon(monkeypatch, runs):
    gpu(monkeypatch, 0, 0, free=10**9)
    weights_and_moments = 4 * 4 * cost(runs[0]).parameters
    assert estimated(runs).member == weights_and_moments


def test_on_a_cpu_nothing_is_tried_out(monkeypatch, runs):
    tried = gpu(monkeypatch, 0, 1, free=10**9)
    assert estimated(runs, CPU) == memory.Need(cost(runs[0]).memory_bytes)
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
    assert memory.even_pack_size(runs, largest) == size
    packs = []
    while runs:
        packs.append(memory.even_pack_size(runs, largest))
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
    assert memory.count_joining(waiting, taken, largest, places) == begun


def test_free_memory_is_a_plausible_number():
    assert 10**6 < memory.free_memory(CPU) < 10**14
