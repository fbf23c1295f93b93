"""Sweeps to be put in order, and an empty store."""

from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.spec.sweep import Sweep
from recollect.store import Store

RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)


@pytest.fixture
def store(tmp_path: Path):
    with Store.create(tmp_path) as store:
        yield store


@pytest.fixture
def make_sweep(make_run) -> Callable[..., Sweep]:
    def sweep(name: str, *widths: int) -> Sweep:
        runs = [
            make_run({"train.lr": lr, "seed": seed, "model.width": width})
            for width in widths
            for lr in RATES
            for seed in (1, 2)
        ]
        return Sweep(name, "", tuple(runs))

    return sweep


@pytest.fixture
def sweeps(make_sweep) -> list[Sweep]:
    return [make_sweep("first", 16), make_sweep("second", 32)]


@pytest.fixture
def tiny(make_run) -> Sweep:
    runs = [make_run({"train.lr": lr, "seed": seed}) for lr in RATES for seed in (1, 2)]
    return Sweep("tiny", "", tuple(runs))
