"""LSTM beyond the contract: the equations written out, its size, its numbers at the start,
the forget gate's bias.
"""

import math

import pytest
import torch
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.errors import SpecError
from recollect.mixers.lstm.mixer import LSTM
from recollect.model.layers import parameter_kinds

DOUBLE = torch.float64


def lstm(width: int = 12, dtype: torch.dtype = torch.float32, **options: float) -> LSTM:
    mixer = Case("lstm", options).build(population=2, width=width, dtype=dtype)
    assert isinstance(mixer, LSTM)
    return mixer


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + (-x).exp())


def by_hand(mixer: LSTM, p: int, x_LD: Tensor) -> Tensor:
    """Gate by gate, from the equations."""
    width = x_LD.shape[1]
    weights = {name: value[p] for name, value in mixer.state_dict().items()}

    def gate(number: int, x_D: Tensor, h_D: Tensor) -> Tensor:
        part = slice(number * width, (number + 1) * width)
        total = weights["into.bias"][part] + weights["recur.bias"][part]
        return (
            total + x_D @ weights["into.weight"][:, part] + h_D @ weights["recur.weight"][:, part]
        )

    h = c = torch.zeros(width, dtype=x_LD.dtype)
    outputs = []
    for x in x_LD:
        i, f, g, o = (gate(number, x, h) for number in range(4))
        c = sigmoid(f) * c + sigmoid(i) * torch.tanh(g)
        h = sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs)


def test_it_is_the_recurrence_of_the_equations():
    mixer, x_PBLD = spread(lstm(dtype=DOUBLE)), inputs(2, 3, 19, 12, dtype=DOUBLE)
    y_PBLD = mixer(x_PBLD)
    for p in range(2):
        for b in range(3):
            torch.testing.assert_close(
                y_PBLD[p, b], by_hand(mixer, p, x_PBLD[p, b]), rtol=1e-12, atol=1e-13
            )


@pytest.mark.parametrize("width", [64, 128])
def test_parameters_and_state_are_those_of_the_formulas(width):
    mixer = lstm(width)
    assert sum(value[0].numel() for value in mixer.parameters()) == 8 * width**2 + 8 * width
    assert mixer.state_size() == 2 * width


def test_everything_starts_uniform_but_the_forget_gate():
    width = 64
    mixer, bound = lstm(width), 1 / math.sqrt(64)
    forget = slice(width, 2 * width)
    for name, value in mixer.named_parameters():
        rest = (
            torch.cat((value[..., :width], value[..., 2 * width :]), -1)
            if name.endswith("bias")
            else value
        )
        assert rest.abs().max() <= bound, name
        assert rest.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1), name
        assert abs(rest.mean().item()) < 4 * bound / math.sqrt(3 * rest.numel()), name
    assert (mixer.into.bias[:, forget] == 1).all()
    assert not mixer.recur.bias[:, forget].any()


def test_the_forget_bias_sets_how_long_a_cell_lasts():
    """With no input but the biases, a cell keeps sigmoid(forget_bias) of itself per step."""
    for bias, kept in ((-2.0, 0.1192), (0.0, 0.5), (3.0, 0.9526)):
        mixer = lstm(dtype=DOUBLE, forget_bias=bias)
        with torch.no_grad():
            mixer.recur.weight.zero_()
        state = mixer.start(1)
        start = {"output": state["output"], "cell": torch.full_like(state["cell"], 1e6)}
        _, after = mixer.step(torch.zeros(2, 1, 12, dtype=DOUBLE), start)
        assert (after["cell"] / 1e6).mean().item() == pytest.approx(kept, abs=1e-3)


def test_biases_are_told_from_weights():
    kinds = parameter_kinds(lstm())
    assert kinds == {
        "into.weight": "weight",
        "into.bias": "bias",
        "recur.weight": "weight",
        "recur.bias": "bias",
    }


def test_an_absurd_forget_bias_is_refused(make_run):
    with pytest.raises(SpecError, match=r"mixer\.forget_bias = 1000"):
        make_run({"model.mixer": {"name": "lstm", "forget_bias": 1000}})
