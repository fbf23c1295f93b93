"""GRU beyond the contract: the equations written out, its size, its numbers at the start."""

import math

import pytest
import torch
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.mixers.gru.mixer import GRU
from recollect.model.layers import parameter_kinds

DOUBLE = torch.float64


def gru(width: int = 12, dtype: torch.dtype = torch.float32) -> GRU:
    mixer = Case("gru").build(population=2, width=width, dtype=dtype)
    assert isinstance(mixer, GRU)
    return mixer


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + (-x).exp())


def by_hand(mixer: GRU, p: int, x_LD: Tensor) -> Tensor:
    """Gate by gate, from the equations."""
    width = x_LD.shape[1]
    weights = {name: value[p] for name, value in mixer.state_dict().items()}

    def part(layer: str, number: int, x_D: Tensor) -> Tensor:
        columns = slice(number * width, (number + 1) * width)
        return x_D @ weights[f"{layer}.weight"][:, columns] + weights[f"{layer}.bias"][columns]

    h, outputs = torch.zeros(width, dtype=x_LD.dtype), []
    for x in x_LD:
        r = sigmoid(part("into", 0, x) + part("recur", 0, h))
        z = sigmoid(part("into", 1, x) + part("recur", 1, h))
        n = torch.tanh(part("into", 2, x) + r * part("recur", 2, h))
        h = (1 - z) * n + z * h
        outputs.append(h)
    return torch.stack(outputs)


def test_it_is_the_recurrence_of_the_equations():
    mixer, x_PBLD = spread(gru(dtype=DOUBLE)), inputs(2, 3, 19, 12, dtype=DOUBLE)
    y_PBLD = mixer(x_PBLD)
    for p in range(2):
        for b in range(3):
            torch.testing.assert_close(
                y_PBLD[p, b], by_hand(mixer, p, x_PBLD[p, b]), rtol=1e-12, atol=1e-13
            )


@pytest.mark.parametrize("width", [64, 128])
def test_parameters_and_state_are_those_of_the_formulas(width):
    mixer = gru(width)
    assert sum(value[0].numel() for value in mixer.parameters()) == 6 * width**2 + 6 * width
    assert mixer.state_size() == width


def test_everything_starts_uniform():
    mixer, bound = gru(64), 1 / math.sqrt(64)
    for name, value in mixer.named_parameters():
        assert value.abs().max() <= bound, name
        assert value.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1), name
        assert abs(value.mean().item()) < 4 * bound / math.sqrt(3 * value.numel()), name
    assert not torch.equal(mixer.into.bias, mixer.recur.bias)


def test_an_update_gate_of_one_keeps_the_state_for_ever():
    mixer = gru(dtype=DOUBLE)
    with torch.no_grad():
        mixer.into.bias[:, 12:24] = 1e4
    x_PBLD = inputs(2, 1, 30, 12, dtype=DOUBLE)
    state = {"output": inputs(2, 1, 12, dtype=DOUBLE, seed=4)}
    for x_PBD in x_PBLD.unbind(2):
        y_PBD, after = mixer.step(x_PBD, state)
        assert torch.equal(y_PBD, state["output"])
        state = after


def test_biases_are_told_from_weights():
    kinds = parameter_kinds(gru())
    assert kinds == {
        "into.weight": "weight",
        "into.bias": "bias",
        "recur.weight": "weight",
        "recur.bias": "bias",
    }
