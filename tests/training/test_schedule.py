"""Learning rates against torch's own schedulers, at every step and at the edges of the warmup."""

import tracemalloc

import numpy as np
import pytest
import torch
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    LinearLR,
    LRScheduler,
    SequentialLR,
)

from recollect.errors import SpecError
from recollect.spec.run import RunSpec
from recollect.training import schedule
from recollect.training.schedule import BLOCK, RateTable, rates, sums_of_rates

LR = 0.3


def run_with(make_run, **train) -> RunSpec:
    return make_run({f"train.{key}": value for key, value in {"lr": LR, **train}.items()})


def torch_rates(steps: int, make_scheduler) -> np.ndarray:
    """What an optimiser under that scheduler uses at each step."""
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=LR)
    scheduler: LRScheduler = make_scheduler(optimiser)
    found = []
    for _ in range(steps):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return np.array(found)


def decayed(optimiser, decay: str, steps: int) -> LRScheduler:
    if decay == "cosine":
        return CosineAnnealingLR(optimiser, steps)
    if decay == "linear":
        return LinearLR(optimiser, 1.0, 0.0, steps)
    return ConstantLR(optimiser, 1.0)


def with_warmup(optimiser, decay: str, rising: int, steps: int) -> LRScheduler:
    warmup = LinearLR(optimiser, 1 / rising, 1.0, rising - 1)
    return SequentialLR(optimiser, [warmup, decayed(optimiser, decay, steps - rising)], [rising])


@pytest.mark.parametrize("decay", ["cosine", "linear", "constant"])
@pytest.mark.parametrize("steps", [2, 7, 40])
def test_without_warmup_the_rate_is_torchs(make_run, decay, steps):
    run = run_with(make_run, steps=steps, evaluations=1, warmup=0, decay=decay)
    np.testing.assert_allclose(
        rates(run), torch_rates(steps, lambda o: decayed(o, decay, steps)), rtol=1e-9, atol=1e-15
    )


@pytest.mark.parametrize("decay", ["cosine", "linear", "constant"])
@pytest.mark.parametrize(("steps", "rising"), [(40, 4), (40, 20), (10, 9), (7, 2)])
@pytest.mark.filterwarnings(
    "ignore:The epoch parameter"
)  # torch's SequentialLR calls its own deprecated argument
def test_with_warmup_the_rate_is_torchs(make_run, decay, steps, rising):
    run = run_with(make_run, steps=steps, evaluations=1, warmup=rising / steps, decay=decay)
    expected = torch_rates(steps, lambda o: with_warmup(o, decay, rising, steps))
    np.testing.assert_allclose(rates(run), expected, rtol=1e-9, atol=1e-15)


def test_the_first_rate_is_above_zero_and_the_peak_is_reached(make_run):
    found = rates(run_with(make_run, steps=100, evaluations=1, warmup=0.1))
    assert found[0] == pytest.approx(LR / 10)
    assert found.max() == found[9] == found[10] == pytest.approx(LR)
    assert found[-1] > 0


@pytest.mark.parametrize("decay", ["cosine", "linear", "constant"])
def test_a_warmup_of_one_rises_to_the_end(make_run, decay):
    found = rates(run_with(make_run, steps=8, evaluations=1, warmup=1.0, decay=decay))
    np.testing.assert_allclose(found, LR * np.arange(1, 9) / 8)


@pytest.mark.parametrize("decay", ["cosine", "linear", "constant", "cosine-per-epoch"])
@pytest.mark.parametrize("warmup", [0, 0.1, 1])
def test_a_single_step_is_made_at_the_peak(make_run, decay, warmup):
    run = run_with(make_run, steps=1, evaluations=1, warmup=warmup, decay=decay)
    assert rates(run).tolist() == pytest.approx([LR])


def test_a_warmup_shorter_than_half_a_step_is_none(make_run):
    short = rates(run_with(make_run, steps=10, evaluations=1, warmup=0.04))
    np.testing.assert_array_equal(
        short, rates(run_with(make_run, steps=10, evaluations=1, warmup=0))
    )


@pytest.mark.parametrize(("share", "rising"), [(0.26, 3), (0.24, 2), (0.06, 1)])
def test_a_warmup_ends_at_the_nearest_step(make_run, share, rising):
    found = rates(run_with(make_run, steps=10, evaluations=1, warmup=share, decay="constant"))
    np.testing.assert_allclose(found, LR * np.minimum(1, np.arange(1, 11) / rising))


def test_cosine_per_epoch_is_torchs_cosine_stepped_once_an_epoch(make_run):
    run = run_with(make_run, steps=20, evaluations=1, warmup=0, decay="cosine-per-epoch")
    assert run.steps_per_epoch == 4
    per_epoch = torch_rates(5, lambda o: CosineAnnealingLR(o, 5))
    np.testing.assert_allclose(rates(run), per_epoch.repeat(4), rtol=1e-9)


def test_a_warmup_scales_the_steps_of_its_epochs(make_run):
    run = run_with(make_run, steps=20, evaluations=1, warmup_steps=6, decay="cosine-per-epoch")
    per_epoch = torch_rates(5, lambda o: CosineAnnealingLR(o, 5)).repeat(4)
    np.testing.assert_allclose(rates(run), per_epoch * np.minimum(1, np.arange(1, 21) / 6))


def test_a_last_epoch_that_is_not_whole_still_trains(make_run):
    found = rates(run_with(make_run, steps=18, evaluations=1, warmup=0, decay="cosine-per-epoch"))
    np.testing.assert_allclose(
        found, torch_rates(5, lambda o: CosineAnnealingLR(o, 5)).repeat(4)[:18], rtol=1e-9
    )
    assert found.min() > 0


# ---- a block of steps at a time ----

DECAYS = ["cosine", "linear", "constant", "cosine-per-epoch"]


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("steps", [1, 7, 8, 9, 100])
def test_rates_of_blocks_are_those_of_all_steps_bit_for_bit(make_run, monkeypatch, decay, steps):
    monkeypatch.setattr(schedule, "BLOCK", 8)
    runs = [
        run_with(make_run, steps=steps, evaluations=1, decay=decay, warmup=warmup, lr=lr)
        for warmup, lr in ((0.1, 0.3), (0.5, 1e-5), (0.0, 7.0))
    ]
    whole_SP = np.stack([rates(run) for run in runs], axis=1).astype(np.float32)
    table = RateTable(runs, torch.device("cpu"))
    for step in [*range(steps), 0, steps - 1]:  # a measurement starts its clock again
        assert table.at(step).tolist() == whole_SP[step].tolist()


@pytest.mark.parametrize("decay", DECAYS)
def test_a_block_of_real_size_has_the_bits_of_all_steps(make_run, decay):
    """Where a vector of numbers begins must not show."""
    run = run_with(make_run, steps=3 * BLOCK + 5, evaluations=1, decay=decay)
    blocks = [rates(run, first, BLOCK) for first in range(0, run.train.steps, BLOCK)]
    assert [len(block) for block in blocks] == [BLOCK] * 3 + [5]
    assert np.concatenate(blocks).tobytes() == rates(run).tobytes()
    odd = [rates(run, first, 1001) for first in range(0, run.train.steps, 1001)]
    assert np.concatenate(odd).tobytes() == rates(run).tobytes()
    assert np.concatenate(list(sums_of_rates(run))).tobytes() == rates(run).cumsum().tobytes()


def test_a_run_of_a_hundred_million_steps_needs_no_table_of_them(make_run):
    run = run_with(make_run, steps=100_000_000, evaluations=1)
    tracemalloc.start()
    table = RateTable([run] * 8, torch.device("cpu"))
    near, far = float(table.at(10_000_000)[0]), float(table.at(99_999_999)[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert near == pytest.approx(LR)
    assert 0 < far < 1e-12
    assert peak < 2e6


# ---- a warmup in steps ----


@pytest.mark.parametrize("decay", ["cosine", "linear", "constant"])
def test_a_warmup_in_steps_is_the_same_share_of_them(make_run, decay):
    in_steps = run_with(make_run, steps=40, evaluations=1, warmup_steps=7, decay=decay)
    as_share = run_with(make_run, steps=40, evaluations=1, warmup=7 / 40, decay=decay)
    assert in_steps.train.warmup == 0
    np.testing.assert_array_equal(rates(in_steps), rates(as_share))
    longer = run_with(make_run, steps=80, evaluations=1, warmup_steps=7, decay=decay)
    assert int(rates(longer).argmax()) == 6
    assert in_steps.shape_id == as_share.shape_id
    assert RunSpec.from_json(in_steps.canonical_json()) == in_steps


@pytest.mark.parametrize(
    ("train", "text"),
    [
        (
            {"warmup": 0.1, "warmup_steps": 3},
            "train: warmup = 0.1 and warmup_steps = 3: give one of the two",
        ),
        (
            {"warmup_steps": 7},
            "train: warmup_steps = 7: must be at most steps = 6; use fewer",
        ),
    ],
)
def test_a_warmup_that_cannot_be_is_refused(make_run, train, text):
    with pytest.raises(SpecError) as caught:
        run_with(make_run, **train)
    assert str(caught.value) == text
