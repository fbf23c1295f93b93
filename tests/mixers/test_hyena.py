"""Hyena: its equations position by position, its filter in both settings and both initialisations,
what it costs.
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
OPTIONS = [{}, {"filter": "safari"}, {"filter_width": 5, "kernel": 1}, {"kernel": 6}]


def built(width: int = 64, length: int = 64, population: int = 4, depth: int = 2, **options):
    return Case("hyena", options).build(
        population=population, width=width, length=length, depth=depth
    )


def floats(mixer) -> int:
    return sum(parameter[0].numel() for parameter in mixer.parameters())


def rms(values: Tensor) -> float:
    return values.square().mean().sqrt().item()


# ---- the function ----


def reference_filter(mixer, p: int, length: int) -> Tensor:
    """The taps of one member, (L, D), lag by lag; `length` is the one the mixer was built for."""
    weights = {name: value[p] for name, value in mixer.named_parameters()}
    width, taps = weights["skip_PD"].numel(), []
    for t in range(length):
        if mixer.spec.filter == "zoology":
            z = weights["lags_PLZ"][t]
        else:
            turn = 2 * math.pi * t / length
            angles = [1e-4 * turn, turn]
            z = torch.tensor(
                [t / (length - 1), *map(math.cos, angles), *(-math.sin(a) for a in angles)],
                dtype=DOUBLE,
            )
        for layer in ("filter_into", "filter_inner.0", "filter_inner.1"):
            z = torch.sin(
                weights["omega_PF"] * (z @ weights[f"{layer}.weight"] + weights[f"{layer}.bias"])
            )
        share = t / (length - 1)
        rates = [
            math.log(0.01) / 1.5 + c / (width - 1) * (math.log(0.01) / 0.3 - math.log(0.01) / 1.5)
            for c in range(width)
        ]
        envelope = torch.tensor([math.exp(-share * abs(rate)) for rate in rates], dtype=DOUBLE)
        taps.append(envelope * (z @ weights["filter_out.weight"]))
    return torch.stack(taps)


def reference(mixer, p: int, length: int, x_LD: Tensor) -> Tensor:
    weights = {name: value[p] for name, value in mixer.named_parameters()}
    width, k_LD, short_KE = (
        x_LD.shape[1],
        reference_filter(mixer, p, length),
        weights["short.weight"],
    )
    projected, u, outputs = x_LD @ weights["into.weight"] + weights["into.bias"], [], []
    for t in range(len(x_LD)):
        mixed = weights["short.bias"].clone()
        for lag in range(min(t + 1, len(short_KE))):
            mixed = mixed + short_KE[len(short_KE) - 1 - lag] * projected[t - lag]
        first, second, v = mixed[:width], mixed[width : 2 * width], mixed[2 * width :]
        u.append(v * first)
        y = weights["skip_PD"] * u[t] + sum(k_LD[lag] * u[t - lag] for lag in range(t + 1))
        outputs.append((y * second) @ weights["out.weight"] + weights["out.bias"])
    return torch.stack(outputs)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("length", [1, 2, 23])
def test_it_is_its_equations(options, length):
    mixer = spread(Case("hyena", options).build(population=2, width=5, length=23, dtype=DOUBLE))
    x_PBLD = inputs(2, 2, length, 5, dtype=DOUBLE)
    for p in range(2):
        # The fixed tables (envelope, safari's encoding) are float32; the sines of safari are ten
        # times as steep.
        torch.testing.assert_close(
            mixer(x_PBLD)[p, 1], reference(mixer, p, 23, x_PBLD[p, 1]), rtol=0, atol=3e-6
        )


def test_beyond_the_length_of_the_matrix_form_it_is_still_its_matrix():
    mixer, x_PBLD = (
        spread(Case("hyena").build(population=2, width=5, length=200, dtype=DOUBLE)),
        inputs(2, 2, 200, 5, dtype=DOUBLE),
    )
    torch.testing.assert_close(
        mixer.effective_attention(x_PBLD).output(), mixer(x_PBLD), rtol=1e-10, atol=1e-11
    )


def test_the_direct_path_alone_is_a_product_of_three_projections():
    mixer, x_PBLD = built(population=1, kernel=1), inputs(1, 2, 64, 64)
    with torch.no_grad():
        mixer.filter_out.weight.zero_()
    first, second, v = mixer.short(mixer.into(x_PBLD)).chunk(3, dim=-1)
    torch.testing.assert_close(mixer(x_PBLD), mixer.out(v * first * mixer.skip_PD * second))


@pytest.mark.parametrize("kernel", [1, 3, 8])
def test_only_the_short_convolution_and_the_filter_see_the_past(kernel):
    mixer, x_PBLD = spread(built(width=8, population=1, kernel=kernel)), inputs(1, 1, 30, 8)
    with torch.no_grad():
        mixer.filter_out.weight.zero_()
    other_PBLD = x_PBLD.clone()
    other_PBLD[:, :, 6] += 1
    changed_L = (mixer(x_PBLD) != mixer(other_PBLD)).any(-1)[0, 0]
    assert changed_L.nonzero().flatten().tolist() == list(range(6, 6 + kernel))


def test_the_envelope_ends_at_its_rates():
    envelope_LD = built().get_buffer("envelope_LD")
    assert (envelope_LD[0] == 1).all()
    assert -envelope_LD[-1, 0].log().item() == pytest.approx(3.07, abs=0.005)
    assert -envelope_LD[-1, -1].log().item() == pytest.approx(15.35, abs=0.005)
    assert (envelope_LD.diff(dim=0) < 0).all()
    assert (envelope_LD[1:].diff(dim=1) < 0).all()


def test_a_filter_of_fast_sines_stays_finite():
    mixer = built(population=1, filter="safari", init="pytorch")
    with torch.no_grad():
        mixer.omega_PF.mul_(1e4)
    x_PBLD = inputs(1, 2, 64, 64).requires_grad_()
    mixer(x_PBLD).square().sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in (x_PBLD, *mixer.parameters()))


# ---- the encoding of lags ----


def test_zoologys_encoding_is_trained_by_each_member():
    mixer = built()
    assert mixer.lags_PLZ.shape == (4, 64, 3)
    assert mixer.lags_PLZ.requires_grad
    share_L, cosine_L, sine_L = mixer.lags_PLZ[0].detach().unbind(-1)
    torch.testing.assert_close(share_L, torch.linspace(0, 1, 64))
    assert (cosine_L - 1).abs().max() < 1e-6
    assert sine_L.abs().max() < 1e-3
    assert torch.equal(mixer.lags_PLZ[0], mixer.lags_PLZ[3])


def test_safaris_encoding_is_fixed_and_shared():
    mixer = built(filter="safari")
    assert mixer.lags_PLZ is None
    assert mixer.get_buffer("lags_LZ").shape == (64, 5)
    assert "lags_LZ" not in mixer.state_dict()
    assert (mixer.omega_PF == 10).all()
    assert (built().omega_PF == 1).all()


# ---- initialisation ----


def test_zoologys_layers_start_small_and_the_output_smaller_in_deep_models():
    for depth in (2, 8):
        mixer = built(width=256, depth=depth)
        assert rms(mixer.out.weight) == pytest.approx(0.02 / math.sqrt(2 * depth), rel=0.02)
        for linear in (mixer.into, mixer.filter_into, *mixer.filter_inner, mixer.filter_out):
            assert rms(linear.weight) == pytest.approx(0.02, rel=0.1)
        biases = [
            value
            for name, value in mixer.named_parameters()
            if name.endswith("bias") and name != "short.bias"
        ]
        assert len(biases) == 5
        assert not any(bias.any() for bias in biases)


def test_pytorchs_layers_start_uniform_with_their_biases():
    mixer = built(width=256, init="pytorch")
    for linear in (mixer.into, mixer.out, mixer.filter_into, *mixer.filter_inner, mixer.filter_out):
        bound = linear.weight.shape[1] ** -0.5
        for values in (linear.weight, linear.bias):
            if values is not None:
                assert 0.95 * bound < values.abs().max() <= bound
                assert rms(values) == pytest.approx(bound / math.sqrt(3), rel=0.1)


@pytest.mark.parametrize("init", ["zoology", "pytorch"])
def test_skip_and_short_convolution_do_not_depend_on_the_initialisation(init):
    mixer = built(width=512, init=init)
    assert mixer.skip_PD.std().item() == pytest.approx(1, rel=0.05)
    assert mixer.short.weight.abs().max().item() == pytest.approx(3**-0.5, rel=0.01)
    assert mixer.short.bias.abs().max().item() == pytest.approx(3**-0.5, rel=0.01)


def test_zoologys_initialisation_makes_the_filter_a_thousand_times_smaller():
    small, large = (built(population=4, init=init)._filter(64) for init in ("zoology", "pytorch"))
    assert rms(small) == pytest.approx(2.1e-5, rel=0.15)
    # the first layer's 3 inputs make members differ
    assert rms(large) == pytest.approx(2.1e-2, rel=0.4)


# ---- what it states ----


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("length", [64, 200])
def test_parameters_and_state(width, length):
    mixer = built(width, length)
    assert floats(mixer) == 4 * width**2 + 81 * width + 3 * length + 8640
    assert mixer.state_size() == length * width + 2 * 3 * width
    # Two more numbers per lag for the first layer, but the table is not trained.
    assert (
        floats(built(width, length, filter="safari")) == 4 * width**2 + 81 * width + 8640 + 2 * 64
    )


@pytest.mark.parametrize(("width", "total"), [(64, 585_728), (128, 1_219_328)])
def test_a_model_has_zoologys_parameters(width, total):
    spec = ModelSpec.parse(
        {"mixer": "hyena", "width": width, "depth": 2, "block": "mixer+identity"}
    )
    assert Model(spec, population=1, vocabulary=8192, length=64).parameters_per_member() == total


def test_direct_path_and_frequencies_are_no_ordinary_weights():
    kinds = parameter_kinds(built())
    assert {name for name, kind in kinds.items() if kind == "dynamics"} == {"skip_PD", "omega_PF"}
    assert kinds["lags_PLZ"] == "weight"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel": 0}, "kernel = 0"),
        ({"filter_width": 0}, "filter_width = 0"),
        ({"filter": "mad"}, "filter"),
        ({"init": "x"}, "init"),
    ],
)
def test_bad_options_are_refused_by_name(options, words):
    with pytest.raises(SpecError, match=words):
        ModelSpec.parse({"mixer": {"name": "hyena", **options}})
