"""BaseConv: its equations position by position, which layers are long,
what it starts with, what it costs.
"""

import math

import pytest
import torch
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.errors import SpecError
from recollect.model.layers import parameter_kinds
from recollect.model.model import Model
from recollect.spec.model import ModelSpec

DOUBLE = torch.float64
OPTIONS = [
    {"filter": "short"},
    {"filter": "short", "kernel": 2},
    {"filter": "short", "kernel": 7},
    {"filter": "long"},
]


def built(width: int = 64, length: int = 64, population: int = 4, layer: int = 0, **options):
    return Case("base_conv", options, layer=layer).build(
        population=population, width=width, length=length
    )


def floats(mixer) -> int:
    return sum(parameter[0].numel() for parameter in mixer.parameters())


# ---- the function ----


def reference(mixer, p: int, length: int, x_LD: Tensor) -> Tensor:
    """One member and row, from the equations; `length` is the one the filter was made for."""
    weights = {name: value[p] for name, value in mixer.named_parameters()}
    outputs = []
    for t in range(len(x_LD)):
        if mixer.is_long:
            mixed = x_LD[t].clone()
            for lag in range(t + 1):
                angle = 1e-4 * 2 * math.pi * lag / length
                z = torch.tensor(
                    [lag / max(length - 1, 1), math.cos(angle), -math.sin(angle)], dtype=DOUBLE
                )
                hidden = (z @ weights["filter_into.weight"] + weights["filter_into.bias"]).clamp(
                    min=0
                )
                tap = hidden @ weights["filter_out.weight"] + weights["filter_out.bias"]
                mixed = mixed + tap * x_LD[t - lag]
        else:
            taps = weights["conv.weight"]
            mixed = weights["conv.bias"].clone()
            for lag in range(min(t + 1, len(taps))):
                mixed = mixed + taps[len(taps) - 1 - lag] * x_LD[t - lag]
        outputs.append(mixed * (x_LD[t] @ weights["gate.weight"] + weights["gate.bias"]) + x_LD[t])
    return torch.stack(outputs)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("length", [1, 2, 23])
def test_it_is_its_equations(options, length):
    mixer = spread(Case("base_conv", options).build(population=2, width=5, length=23, dtype=DOUBLE))
    x_PBLD = inputs(2, 2, length, 5, dtype=DOUBLE)
    for p in range(2):
        for row in range(2):
            wanted = reference(mixer, p, 23, x_PBLD[p, row])
            # The encoding of a lag is a float32 table.
            torch.testing.assert_close(
                mixer(x_PBLD)[p, row], wanted, rtol=0, atol=1e-6 if mixer.is_long else 1e-13
            )


@pytest.mark.parametrize("filter_", ["short", "long"])
def test_a_closed_gate_leaves_the_input(filter_):
    mixer, x_PBLD = built(filter=filter_), inputs(4, 2, 64, 64)
    with torch.no_grad():
        mixer.gate.weight.zero_()
    assert torch.equal(mixer(x_PBLD), x_PBLD)


def test_a_long_filter_of_zeros_still_passes_the_present():
    mixer, x_PBLD = built(filter="long", population=1), inputs(1, 2, 64, 64)
    with torch.no_grad():
        mixer.filter_out.weight.zero_()
    torch.testing.assert_close(mixer(x_PBLD), x_PBLD * mixer.gate(x_PBLD) + x_PBLD)


@pytest.mark.parametrize("kernel", [2, 5])
def test_a_short_filter_reaches_as_far_as_its_taps(kernel):
    mixer, x_PBLD = spread(built(width=8, filter="short", kernel=kernel)), inputs(4, 1, 20, 8)
    other_PBLD = x_PBLD.clone()
    other_PBLD[:, :, 6] += 1
    changed_L = (mixer(x_PBLD) != mixer(other_PBLD)).any(-1).all(0)[0]
    assert changed_L.nonzero().flatten().tolist() == list(range(6, 6 + kernel))


def test_a_long_filter_reaches_everywhere_beyond_the_length_of_the_matrix_form_too():
    mixer, x_PBLD = (
        spread(built(width=8, length=300, filter="long", population=1)),
        inputs(1, 1, 300, 8),
    )
    other_PBLD = x_PBLD.clone()
    other_PBLD[:, :, 0] += 1
    assert ((mixer(x_PBLD) - mixer(other_PBLD)).abs().amax(-1) > 1e-4).all()


def test_layers_alternate_and_the_first_is_short():
    assert [built(layer=layer).is_long for layer in range(4)] == [False, True, False, True]
    assert [built(layer=layer, filter="long").is_long for layer in range(2)] == [True, True]
    assert [built(layer=layer, filter="short").is_long for layer in range(2)] == [False, False]


# ---- initialisation ----


def test_linear_layers_start_small_without_biases():
    for mixer in (built(filter="long"), built(filter="short")):
        linears = [mixer.gate] + ([mixer.filter_into, mixer.filter_out] if mixer.is_long else [])
        for linear in linears:
            assert linear.weight.std().item() == pytest.approx(0.02, rel=0.1)
            assert not linear.bias.any()


def test_the_short_filter_starts_as_pytorch_would():
    mixer = built(width=512, filter="short", kernel=3)
    for values in (mixer.conv.weight, mixer.conv.bias):
        assert values.abs().max().item() == pytest.approx(3**-0.5, rel=0.01)
        assert values.std().item() == pytest.approx(1 / 3, rel=0.05)


def test_the_long_filter_starts_at_a_thousandth():
    """It is the product of two layers of 0.02 summed over half of 16 units."""
    filter_PDL = (
        Case("base_conv", {"filter": "long"}).build(population=4, width=64, length=64)._filter(64)
    )
    rms = filter_PDL.square().mean().sqrt().item()
    assert rms == pytest.approx(1.4e-3, rel=0.3)
    # [share, 1, almost 0] through a ReLU: a piecewise linear function of the lag, with few bends.
    bends = filter_PDL.diff(dim=-1).diff(dim=-1).abs() > 1e-6
    assert bends.sum(-1).max() <= 2 * 16


# ---- what it states ----


@pytest.mark.parametrize("width", [64, 128])
def test_parameters_and_state(width):
    short, long = built(width, filter="short"), built(width, filter="long")
    assert floats(short) == width**2 + 5 * width
    assert floats(long) == width**2 + 18 * width + 64
    assert short.state_size() == 2 * width
    assert long.state_size() == 64 * width


def test_the_encoding_of_lags_is_one_fixed_table_for_all_members():
    mixer = built(filter="long")
    assert mixer.get_buffer("lags_L3").shape == (64, 3)
    assert "lags_L3" not in mixer.state_dict()


@pytest.mark.parametrize(("width", "total"), [(64, 534_848), (128, 1_085_824)])
def test_a_model_has_zoologys_parameters_but_for_the_frozen_ones(width, total):
    spec = ModelSpec.parse(
        {"mixer": "base_conv", "width": width, "depth": 2, "block": "mixer+identity"}
    )
    assert (
        Model(spec, population=1, vocabulary=8192, length=64).parameters_per_member()
        == total - 3 * 64
    )


def test_biases_are_told_from_weights():
    kinds = parameter_kinds(built(filter="long"))
    assert {name for name, kind in kinds.items() if kind == "bias"} == {
        "gate.bias",
        "filter_into.bias",
        "filter_out.bias",
    }
    assert set(kinds.values()) == {"weight", "bias"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel": 1}, "kernel = 1"),
        ({"kernel": 65}, "kernel = 65"),
        ({"filter": "wide"}, "filter"),
    ],
)
def test_bad_options_are_refused_by_name(options, words):
    with pytest.raises(SpecError, match=words):
        ModelSpec.parse({"mixer": {"name": "base_conv", **options}})
