"""What tests of populations share."""

import torch
from torch import Tensor

from recollect.spec.run import RunSpec
from recollect.training.population import Population


def advance(population: Population, steps: int) -> Population:
    for _ in range(steps):
        population.train_step(population.next_rows())
    return population


def member(population: Population, run: RunSpec) -> dict[str, Tensor]:
    return population.state().select([run.run_id]).tensors


def assert_same_bits(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), f"{name}: {(value - other[name]).abs().max()}"
