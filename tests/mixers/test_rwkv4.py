"""RWKV-4: the recurrence from its equations, the initialisation layer by layer,
what the two options change.
"""

import math

import pytest
import torch
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.errors import SpecError
from recollect.mixers.base import Mixer, Site
from recollect.mixers.build import build_mixer
from recollect.mixers.registry import MIXERS
from recollect.model.layers import initialise, parameter_kinds
from recollect.spec.model import ModelSpec

WIDTH = 64


def built(
    width: int = WIDTH, layer: int = 0, depth: int = 2, population: int = 2, **options: str
) -> Mixer:
    mixer = build_mixer(
        MIXERS["rwkv4"].model_validate({"name": "rwkv4", **options}),
        Site(population, width, 32, depth, "none", layer),
    )
    initialise(mixer, list(range(population)))
    return mixer


# ---- the function ----


def reference(weights: dict[str, Tensor], x_LD: Tensor) -> Tensor:
    """One member and row, from the equations:
    sums over all positions before, without any care for overflow.
    """
    before = torch.zeros_like(x_LD[0])
    keys, values, outputs = [], [], []
    w, u = -torch.exp(weights["time_decay_PD"]), weights["time_first_PD"]
    for t, x in enumerate(x_LD):
        key, value, receptance = (
            (x * weights[f"mix_{name}_PD"] + before * (1 - weights[f"mix_{name}_PD"]))
            @ weights[f"{name}.weight"]
            for name in ("key", "value", "receptance")
        )
        num, den = torch.exp(u + key) * value, torch.exp(u + key)
        for i in range(t):
            weight = torch.exp((t - 1 - i) * w + keys[i])
            num, den = num + weight * values[i], den + weight
        outputs.append((num / den / (1 + torch.exp(-receptance))) @ weights["out.weight"])
        keys.append(key)
        values.append(value)
        before = x
    return torch.stack(outputs)


@pytest.mark.parametrize("layer", [0, 1])
def test_it_is_the_equations(layer):
    mixer = spread(Case("rwkv4", layer=layer).build(dtype=torch.float64))
    x_PBLD = inputs(3, 2, 21, 12, dtype=torch.float64)
    found = mixer(x_PBLD)
    for p in range(3):
        weights = {name: value[p] for name, value in mixer.state_dict().items()}
        for b in range(2):
            torch.testing.assert_close(
                found[p, b], reference(weights, x_PBLD[p, b]), rtol=1e-12, atol=1e-12
            )


@pytest.mark.parametrize("scale", [10.0, 100.0])
def test_large_keys_and_strong_decays_stay_finite(scale):
    mixer = built(width=16)
    with torch.no_grad():
        mixer.key.weight *= scale
        mixer.time_decay_PD[1] = torch.linspace(-20, 8, 16)
    x_PBLD = inputs(2, 4, 512, 16).requires_grad_()
    y_PBLD = mixer(x_PBLD)
    y_PBLD.square().sum().backward()
    for name, tensor in [("input", x_PBLD), *mixer.named_parameters()]:
        assert tensor.grad.isfinite().all(), name
    exact = mixer.double()(x_PBLD.detach().double())
    assert (y_PBLD - exact).abs().max() < 1e-3 * exact.abs().max()


def test_an_effective_row_is_a_mean():
    """Weights of a softmax: not negative and of sum 1 in every channel."""
    effective = spread(built(width=6)).effective_attention(inputs(2, 3, 11, 6))
    weights = effective.weights_PBHLL
    assert weights.shape == (2, 3, 6, 11, 11)
    assert effective.values_PBHLD.shape == (2, 3, 6, 11, 1)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 6, 11))
    assert (weights >= 0).all()


def test_the_present_has_the_bonus_and_the_last_token_no_decay_yet():
    """With equal keys the logarithms of a row are 0 for the token before, w and 2 w for those
    before that, u for its own.
    """
    mixer = built(width=6)
    with torch.no_grad():
        mixer.key.weight.zero_()
        mixer.time_decay_PD.fill_(math.log(0.7))
        mixer.time_first_PD.fill_(0.4)
    row = mixer.effective_attention(inputs(2, 1, 4, 6)).weights_PBHLL[0, 0, 0, 3].log()
    torch.testing.assert_close(row - row[2], torch.tensor([-1.4, -0.7, 0.0, 0.4]))


# ---- what it is made of ----


@pytest.mark.parametrize("width", [64, 128])
def test_parameters_and_state(width):
    mixer = built(width)
    assert sum(parameter[0].numel() for parameter in mixer.parameters()) == 4 * width**2 + 5 * width
    assert mixer.state_size() == 4 * width
    assert mixer.operations_per_token() == 4 * width**2 + 8 * width


@pytest.mark.parametrize(("width", "total"), [(64, 558_336), (128, 1_182_208)])
def test_a_model_has_as_many_parameters_as_zoologys(width, total):
    from recollect.model.model import Model

    spec = ModelSpec.parse({"mixer": "rwkv4", "width": width, "block": "mixer+identity"})
    assert Model(spec, 1, 8192, 64).parameters_per_member() == total


def test_decay_and_bonus_are_dynamics_and_nothing_else_is():
    kinds = parameter_kinds(built())
    assert {name for name, kind in kinds.items() if kind == "dynamics"} == {
        "time_decay_PD",
        "time_first_PD",
    }
    assert set(kinds.values()) == {"dynamics", "weight"}


# ---- initialisation ----


def values(layer: int, layers: int, width: int = WIDTH) -> dict[str, list[float]]:
    """Channel by channel, as the sheet of RWKV-LM says."""
    rho, eta = layer / (layers - 1) if layers > 1 else 0.0, 1 - layer / layers
    return {
        "time_decay_PD": [-5 + 8 * (c / (width - 1)) ** (0.7 + 1.3 * rho) for c in range(width)],
        "time_first_PD": [math.log(0.3) + (-0.5, 0.0, 0.5)[(c + 1) % 3] for c in range(width)],
        "mix_key_PD": [(c / width) ** eta for c in range(width)],
        "mix_value_PD": [(c / width) ** eta + 0.3 * rho for c in range(width)],
        "mix_receptance_PD": [math.sqrt((c / width) ** eta) for c in range(width)],
    }


@pytest.mark.parametrize(
    ("options", "layer", "depth", "believed"),
    [
        ({}, 0, 2, 12),
        ({}, 1, 2, 12),
        ({}, 0, 1, 12),
        ({}, 11, 12, 12),
        ({"ratio_layers": "depth"}, 1, 2, 2),
        ({"ratio_layers": "depth"}, 2, 5, 5),
        ({"ratio_layers": "depth"}, 0, 1, 1),
        ({"ratio_layers": "depth"}, 19, 20, 20),
        ({"init": "official"}, 1, 2, 12),
    ],
)
def test_curves_over_the_channels(options, layer, depth, believed):
    mixer = built(layer=layer, depth=depth, **options)
    for name, wanted in values(layer, believed).items():
        found = getattr(mixer, name)
        assert found.isfinite().all()
        torch.testing.assert_close(
            found, torch.tensor(wanted).expand(2, -1), msg=lambda text, name=name: f"{name}: {text}"
        )


def test_half_of_the_channels_forget_within_a_step():
    """Quantiles of what is left of a weight after a step,
    in the first layer (section 3.8 of the fact sheet).
    """
    kept = (-built(width=1025).time_decay_PD[0].exp()).exp()
    quantiles = kept.quantile(torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0])).tolist()
    assert quantiles == pytest.approx([2e-9, 0.0095, 0.40, 0.87, 0.9933], rel=0.06)
    assert math.log(0.5) / math.log(quantiles[-1]) == pytest.approx(
        103, rel=0.01
    )  # the longest half-life


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_narrow_mixer_starts_finite(width):
    mixer = built(width=width)
    assert all(parameter.isfinite().all() for parameter in mixer.parameters())
    assert mixer(inputs(2, 2, 5, width)).isfinite().all()


def test_linear_layers_start_as_torchs_default():
    mixer = built(width=WIDTH)
    for layer in (mixer.key, mixer.value, mixer.receptance, mixer.out):
        assert layer.bias is None
        assert layer.weight.abs().max() <= 1 / math.sqrt(WIDTH)
        assert layer.weight.std().item() == pytest.approx(1 / math.sqrt(3 * WIDTH), rel=0.03)
    assert not torch.equal(mixer.key.weight, mixer.value.weight)


def test_official_linear_layers_are_zero_but_for_an_orthogonal_value():
    mixer = built(init="official")
    for layer in (mixer.key, mixer.receptance, mixer.out):
        assert not layer.weight.any()
    product = mixer.value.weight @ mixer.value.weight.transpose(1, 2)
    torch.testing.assert_close(product, torch.eye(WIDTH).expand(2, -1, -1), rtol=0, atol=1e-6)
    assert not torch.equal(mixer.value.weight[0], mixer.value.weight[1])
    assert mixer.value.weight.std().item() == pytest.approx(1 / math.sqrt(WIDTH), rel=0.02)


def test_the_official_start_learns_its_output_first():
    """Zeros stop every other gradient at step 0, and at step 0 alone."""
    mixer, x_PBLD = built(width=8, init="official"), inputs(2, 3, 9, 8)
    for reached in ({"out.weight"}, set(dict(mixer.named_parameters()))):
        mixer.zero_grad()
        (mixer(x_PBLD) * inputs(2, 3, 9, 8, seed=2)).sum().backward()
        found = {name for name, parameter in mixer.named_parameters() if parameter.grad.any()}
        assert found == reached
        with torch.no_grad():
            for parameter in mixer.parameters():
                parameter.sub_(0.1 * parameter.grad)
            mixer.key.weight += 0.01 * inputs(
                2, 8, 8
            )  # equal keys everywhere leave its token shift without effect
            mixer.receptance.weight += 0.01 * inputs(2, 8, 8)


# ---- refusals ----


def test_more_layers_than_the_initialisation_believes_in_are_refused():
    """The exponent of the token shift would be negative, and its first channel infinite."""
    with pytest.raises(
        SpecError, match=r'depth = 13 is more than twelve; use ratio_layers = "depth"'
    ):
        ModelSpec.parse({"mixer": "rwkv4", "depth": 13})
    ModelSpec.parse({"mixer": "rwkv4", "depth": 12})
    ModelSpec.parse({"mixer": {"name": "rwkv4", "ratio_layers": "depth"}, "depth": 13})


@pytest.mark.parametrize("options", [{"ratio_layers": 12}, {"init": "zoology"}])
def test_unknown_choices_are_refused(options):
    with pytest.raises(SpecError, match=next(iter(options))):
        ModelSpec.parse({"mixer": {"name": "rwkv4", **options}})
