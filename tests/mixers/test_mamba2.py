"""Mamba2: the recurrence from its equations, both initialisations, what each option leaves out."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.errors import SpecError
from recollect.mixers.base import Site
from recollect.mixers.build import build_mixer
from recollect.model.layers import initialise, parameter_kinds
from recollect.spec.model import ModelSpec

OPTIONS = [
    {},
    {"kernel": 0},
    {"kernel": 1},
    {"gate": False},
    {"kernel": 0, "gate": False},
    {"head": 1, "state": 3},
    {"head": 40, "kernel": 2},
    {"expand": 1, "head": 5},
]
every_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


def built(width: int = 64, length: int = 64, population: int = 4, depth: int = 2, **options):
    return Case("mamba2", options).build(
        population=population, width=width, length=length, depth=depth
    )


def floats(mixer) -> int:
    return sum(parameter[0].numel() for parameter in mixer.parameters())


# ---- the function ----


def reference(mixer, p: int, x_LD: Tensor) -> Tensor:
    """One member and one row, position by position and head by head."""
    weights = {name: value.detach()[p] for name, value in mixer.named_parameters()}
    states, heads, inner = mixer.spec.state, len(weights["skip_PH"]), weights["out.weight"].shape[0]
    size, rates = inner // heads, -torch.exp(weights["a_log_PH"])
    memories, past, outputs = (
        [torch.zeros(states, size, dtype=x_LD.dtype) for _ in range(heads)],
        [],
        [],
    )
    for x in x_LD:
        entered = x @ weights["into.weight"]
        z = entered[:inner] if mixer.spec.gate else None
        past.append(entered[-(inner + 2 * states + heads) : -heads])
        mixed = past[-1]
        if "conv.weight" in weights:
            taps = list(weights["conv.weight"])
            mixed = weights["conv.bias"] + sum(
                tap * value for tap, value in zip(reversed(taps), reversed(past), strict=False)
            )
        mixed = mixed / (1 + torch.exp(-mixed))
        v, b, c = mixed[:inner], mixed[inner : inner + states], mixed[inner + states :]
        delta = torch.log(1 + torch.exp(entered[-heads:] + weights["delta_bias_PH"]))
        parts = []
        for h, own in enumerate(v.split(size)):
            memories[h] = torch.exp(delta[h] * rates[h]) * memories[h] + delta[h] * torch.outer(
                b, own
            )
            parts.append(c @ memories[h] + weights["skip_PH"][h] * own)
        y = torch.cat(parts)
        if z is not None:
            y = y * z / (1 + torch.exp(-z))
        y = y / torch.sqrt((y * y).mean() + 1e-5) * weights["norm.weight"]
        outputs.append(y @ weights["out.weight"])
    return torch.stack(outputs)


@every_option
@pytest.mark.parametrize("length", [1, 2, 37])
def test_it_is_its_recurrence(options, length):
    mixer = spread(
        Case("mamba2", {"head": 8, "state": 16, **options}).build(
            population=2, width=20, dtype=torch.float64
        )
    )
    x_PBLD = inputs(2, 2, length, 20, dtype=torch.float64)
    y_PBLD = mixer(x_PBLD)
    for p in range(2):
        for row in range(2):
            torch.testing.assert_close(
                y_PBLD[p, row], reference(mixer, p, x_PBLD[p, row]), rtol=1e-11, atol=1e-13
            )


def test_heads_do_not_share_their_values():
    """A change of one head's channels of v changes no other head's part of y."""
    mixer = spread(built(width=12, population=1, head=6, kernel=0))
    effective = mixer.effective_attention(inputs(1, 1, 9, 12))
    assert effective.weights_PBHLL.shape == (1, 1, 4, 9, 9)
    assert effective.values_PBHLD.shape == (1, 1, 4, 9, 6)
    first, second = effective.weights_PBHLL[0, 0, :2]
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("step", [0.7, 50.0])
def test_strong_decay_over_a_long_sequence_stays_finite_and_exact(step):
    """The exponents of the fast heads sum up to hundreds of thousands, one head forgets slowly."""
    mixer = built(width=16, length=512, population=1, head=8, state=16)
    with torch.no_grad():
        mixer.delta_bias_PH.fill_(step + math.log(-math.expm1(-step)))
        mixer.a_log_PH[:, 0] = math.log(1e-2)
    x_PBLD = inputs(1, 1, 512, 16).requires_grad_()
    y_PBLD = mixer(x_PBLD)
    y_PBLD.sum().backward()
    for tensor in (x_PBLD, *mixer.parameters()):
        assert tensor.grad.isfinite().all()
    expected_PBLD = mixer.double()(x_PBLD.detach().double())
    torch.testing.assert_close(y_PBLD.double(), expected_PBLD, rtol=1e-4, atol=5e-6)


# ---- initialisation ----


def many_heads(**options):
    """As many heads as fit, so that quantiles mean something."""
    return built(width=512, population=4, head=1, state=1, **options)


@pytest.mark.parametrize("init", ["official", "zoology"])
def test_the_decays_at_the_start_are_spread_over_one_to_a_hundred_tokens(init):
    """Old Zoology left them alone: the bias of the step is no linear layer's here."""
    mixer = many_heads(init=init)
    decays = torch.exp(-F.softplus(mixer.delta_bias_PH) * mixer.a_log_PH.exp()).flatten()
    found = decays.quantile(torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95])).tolist()
    assert found == pytest.approx([0.45, 0.80, 0.93, 0.979, 0.993], abs=0.02)
    half_lives = math.log(0.5) / decays.log()
    low, high = half_lives.quantile(torch.tensor([0.05, 0.95])).tolist()
    assert 0.5 < low < 1.5
    assert 50 < high < 150


def test_rates_and_steps_fill_their_ranges():
    mixer = many_heads()
    rates, steps = mixer.a_log_PH.exp(), F.softplus(mixer.delta_bias_PH)
    assert rates.min() >= 0.999
    assert rates.max() <= 16.001
    assert rates.mean().item() == pytest.approx(8.5, abs=0.3)
    assert steps.min() >= 0.999e-3
    assert steps.max() <= 1.001e-1
    quantiles = steps.flatten().quantile(torch.tensor([0.05, 0.5, 0.95])).tolist()
    assert quantiles == pytest.approx([0.00126, 0.01, 0.079], rel=0.08)


@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize("init", ["official", "zoology"])
def test_every_tensor_starts_with_its_distribution(init, depth):
    uniform = 1 / math.sqrt(3)
    small = init == "zoology"
    stds = {
        "into.weight": 0.02 if small else uniform / 8,
        "out.weight": 0.02 / math.sqrt(2 * depth) if small else uniform / math.sqrt(128 * depth),
        "conv.weight": uniform / 2,
        "conv.bias": uniform / 2,
    }
    parameters = dict(built(init=init, depth=depth).named_parameters())
    for key, std in stds.items():
        assert parameters[key].std().item() == pytest.approx(
            std, rel=4 / math.sqrt(2 * parameters[key].numel())
        ), key
    assert (parameters["norm.weight"] == 1).all()
    assert (parameters["skip_PH"] == 1).all()
    assert parameters.keys() == stds.keys() | {
        "norm.weight",
        "skip_PH",
        "a_log_PH",
        "delta_bias_PH",
    }


def test_a_seed_decides_how_slow_the_slowest_head_is():
    """Two heads at width 64: the luck of a seed that results must be averaged over."""
    mixer = build_mixer(Case("mamba2").spec(), Site(64, 64, 64, 2, "none"))
    initialise(mixer, list(range(64)))
    decays_PH = torch.exp(-F.softplus(mixer.delta_bias_PH) * mixer.a_log_PH.exp())
    assert decays_PH.shape == (64, 2)
    slowest_P = decays_PH.amax(1)
    assert slowest_P.min() < 0.9
    assert slowest_P.max() > 0.99


# ---- sizes ----


@pytest.mark.parametrize(
    ("width", "states", "total"),
    [(64, 128, 43_142), (64, 16, 27_686), (128, 128, None), (128, 16, None)],
)
def test_parameters_and_state_are_as_the_formulas_say(width, states, total):
    heads = width // 32
    whole = built(width=width, state=states)
    assert (
        floats(whole)
        == 6 * width**2 + 2 * width * states + width * heads + 12 * width + 10 * states + 3 * heads
    )
    assert total in (None, floats(whole))
    assert whole.state_size() == 2 * width * states + 6 * (width + states)
    assert floats(whole) - floats(built(width=width, state=states, kernel=0)) == 5 * (
        2 * width + 2 * states
    )
    assert floats(whole) - floats(built(width=width, state=states, gate=False)) == 2 * width**2
    assert built(width=width, state=states, kernel=0).state_size() == 2 * width * states


def test_leaving_something_out_saves_operations():
    whole = built().operations_per_token()
    assert whole - built(kernel=0).operations_per_token() == 4 * (128 + 256)
    assert whole - built(gate=False).operations_per_token() == 64 * 128
    assert built(length=128).operations_per_token() - whole == 32 * (128 + 128 + 2)


def test_the_dynamics_are_told_from_weights():
    kinds = parameter_kinds(built())
    assert {name for name, kind in kinds.items() if kind == "dynamics"} == {
        "a_log_PH",
        "skip_PH",
        "delta_bias_PH",
    }
    assert kinds["norm.weight"] == "norm"
    assert kinds["conv.bias"] == "bias"


@every_option
def test_it_can_be_counted_without_being_computed(options):
    with torch.device("meta"):
        mixer = build_mixer(
            Case("mamba2", {"head": 8, **options}).spec(), Site(1, 20, 33, 2, "none")
        )
        y_PBLD = mixer(torch.empty(1, 2, 33, 20))
    assert y_PBLD.shape == (1, 2, 33, 20)
    assert y_PBLD.device.type == "meta"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": 24}, "mixer.head = 24: must divide expand * width = 128; for example head = 64"),
        (
            {"head": 256},
            "mixer.head = 256: must divide expand * width = 128; for example head = 64",
        ),
        ({"head": 0}, "mixer.head = 0: must be at least 1; for example head = 64"),
        ({"kernel": 65}, "mixer.kernel = 65: must be at most 64"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(SpecError) as error:
        ModelSpec.parse({"mixer": {"name": "mamba2", **options}, "width": 64})
    assert str(error.value).startswith(message)
