"""Mamba and S6: the recurrence from its equations, both initialisations,
what each option leaves out.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.errors import SpecError
from recollect.mixers.base import Site
from recollect.mixers.build import build_mixer
from recollect.model.layers import parameter_kinds
from recollect.spec.model import ModelSpec

QUANTILES = torch.tensor([0.05, 0.5, 0.95])
OPTIONS = [
    {},
    {"kernel": 0},
    {"kernel": 1},
    {"gate": False},
    {"kernel": 0, "gate": False},
    {"state": 3, "expand": 1, "kernel": 2},
]
every_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


def built(
    name: str = "mamba",
    width: int = 64,
    length: int = 64,
    population: int = 4,
    depth: int = 2,
    **options,
):
    return Case(name, options).build(population=population, width=width, length=length, depth=depth)


def floats(mixer) -> int:
    return sum(parameter[0].numel() for parameter in mixer.parameters())


# ---- the function ----


def reference(mixer, p: int, x_LD: Tensor) -> Tensor:
    """One member and one row, position by position."""
    weights = {name: value.detach()[p] for name, value in mixer.named_parameters()}
    inner, states = weights["a_log_PEN"].shape
    rank = weights["delta.weight"].shape[0]
    h, past, outputs = torch.zeros(inner, states, dtype=x_LD.dtype), [], []
    for x in x_LD:
        entered = x @ weights["into.weight"]
        past.append(entered[:inner])
        u = past[-1]
        if "conv.weight" in weights:
            taps = list(weights["conv.weight"])
            u = weights["conv.bias"] + sum(
                tap * value for tap, value in zip(reversed(taps), reversed(past), strict=False)
            )
        u = u / (1 + torch.exp(-u))
        selected = u @ weights["select.weight"]
        b, c = selected[rank : rank + states], selected[rank + states :]
        delta = torch.log(
            1 + torch.exp(selected[:rank] @ weights["delta.weight"] + weights["delta.bias"])
        )
        h = torch.exp(-delta[:, None] * torch.exp(weights["a_log_PEN"])) * h + torch.outer(
            delta * u, b
        )
        y = h @ c + weights["skip_PE"] * u
        if len(entered) > inner:
            z = entered[inner:]
            y = y * z / (1 + torch.exp(-z))
        outputs.append(y @ weights["out.weight"])
    return torch.stack(outputs)


@every_option
@pytest.mark.parametrize("name", ["mamba", "s6"])
@pytest.mark.parametrize("length", [1, 2, 37])
def test_it_is_its_recurrence(name, options, length):
    mixer = spread(Case(name, options).build(population=2, width=20, dtype=torch.float64))
    x_PBLD = inputs(2, 2, length, 20, dtype=torch.float64)
    y_PBLD = mixer(x_PBLD)
    for p in range(2):
        for row in range(2):
            torch.testing.assert_close(
                y_PBLD[p, row], reference(mixer, p, x_PBLD[p, row]), rtol=1e-11, atol=1e-13
            )


def test_s6_is_mamba_without_its_gate():
    ours, theirs = built("s6", width=16), built("mamba", width=16, gate=False)
    x_PBLD = inputs(4, 2, 9, 16)
    assert torch.equal(ours(x_PBLD), theirs(x_PBLD))
    assert not torch.equal(ours(x_PBLD), built("mamba", width=16)(x_PBLD))


@pytest.mark.parametrize("init", ["official", "zoology", "mimetic"])
@pytest.mark.parametrize("step", [None, 0.7], ids=["its own steps", "steps of 0.7"])
def test_strong_decay_over_a_long_sequence_stays_finite(init, step):
    mixer = built(width=16, length=512, population=2, init=init)
    if step is not None:
        with torch.no_grad():
            mixer.delta.bias.fill_(math.log(math.expm1(step)))
    x_PBLD = inputs(2, 2, 512, 16).requires_grad_()
    y_PBLD = mixer(x_PBLD)
    y_PBLD.sum().backward()
    assert y_PBLD.isfinite().all()
    for tensor in (x_PBLD, *mixer.parameters()):
        assert tensor.grad.isfinite().all()


# ---- initialisation ----


def test_the_official_start_has_a_long_memory():
    mixer = built(width=256)
    with torch.no_grad():
        delta_PBLE = mixer._projected(inputs(4, 2, 64, 256))[1]
    low, median, high = delta_PBLE.flatten()[::7].quantile(QUANTILES).tolist()
    assert (low, median, high) == pytest.approx(
        (0.0013, 0.01, 0.08), rel=0.12
    )  # a median of 2048 channels: 5 % either way
    bias = F.softplus(mixer.delta.bias)
    assert bias.min() > 0.999e-3
    assert bias.max() < 1.001e-1
    decays = torch.exp(-median * mixer.a_log_PEN.exp())
    assert decays[..., 0].mean().item() == pytest.approx(0.991, abs=0.002)
    assert decays[..., 15].mean().item() == pytest.approx(0.86, abs=0.02)


def test_the_start_of_old_zoology_forgets_within_one_token():
    mixer = built(init="zoology")
    with torch.no_grad():
        delta_PBLE = mixer._projected(inputs(4, 2, 64, 64))[1]
    torch.testing.assert_close(
        delta_PBLE, torch.full_like(delta_PBLE, math.log(2)), rtol=0.01, atol=0
    )
    assert not mixer.delta.bias.any()
    decays_N = torch.exp(-math.log(2) * mixer.a_log_PEN[0, 0].exp())
    assert decays_N[[0, 15]].tolist() == pytest.approx([0.5, 1.5e-5], rel=0.03)


def test_the_mimetic_start_is_near_linear_attention_that_forgets_nothing():
    mixer = built(init="mimetic")
    with torch.no_grad():
        _, delta_PBLE, b_PBLN, c_PBLN, _ = mixer._projected(inputs(4, 2, 64, 64))
    torch.testing.assert_close(delta_PBLE, torch.ones_like(delta_PBLE), rtol=0.01, atol=0)
    # All states but the first keep what they have over 64 tokens; the third 0.99 of it.
    kept_N = torch.exp(-64 * mixer.a_log_PEN[0, 0].exp())
    assert kept_N[:3].tolist() == pytest.approx([0.0, math.exp(-0.25), 0.99], abs=1e-3)
    assert kept_N[3:].min() > 0.999
    # W_C is (W_C' + W_B) / 2 of two independent ones: their cosine is 1 / sqrt(2).
    rank, state = mixer.rank, mixer.spec.state
    write, read = mixer.select.weight[..., rank:].split(state, dim=-1)
    cosine = F.cosine_similarity(write.flatten(1), read.flatten(1), dim=1)
    assert cosine.tolist() == pytest.approx([math.sqrt(0.5)] * 4, abs=0.03)
    products = (b_PBLN * c_PBLN).sum(-1)
    assert products.mean() > 0.5 * products.abs().mean()
    # The rest is as in the official one, whose numbers it draws.
    official = dict(built().named_parameters())
    for name in ("into.weight", "conv.weight", "conv.bias", "skip_PE"):
        assert torch.equal(dict(mixer.named_parameters())[name], official[name]), name


@pytest.mark.parametrize(
    ("init", "least", "most"),
    [("official", 0.05, 1.0), ("zoology", 0.0, 1e-6), ("mimetic", 0.5, 1.5)],
)
def test_what_is_left_of_the_past_depends_on_the_start(init, least, most):
    """The effective attention at distance 33 relative to distance 1, per entry."""
    mixer = built(population=2, init=init)
    with torch.no_grad():
        weights_PBELL = mixer.effective_attention(inputs(2, 1, 64, 64)).weights_PBHLL.abs()
    near, far = (weights_PBELL.diagonal(-distance, -2, -1).mean().item() for distance in (1, 33))
    assert least < far / near < most


@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize("init", ["official", "zoology"])
@pytest.mark.parametrize("name", ["mamba", "s6"])
def test_every_tensor_starts_with_its_distribution(name, init, depth):
    uniform = 1 / math.sqrt(3)
    official = {
        "into.weight": uniform / 8,
        "select.weight": uniform / math.sqrt(128),
        "delta.weight": uniform / 2,
        "out.weight": uniform / math.sqrt(128 * depth),
    }
    zoology = dict.fromkeys(official, 0.02) | {"out.weight": 0.02 / math.sqrt(2 * depth)}
    stds = (official if init == "official" else zoology) | {
        "conv.weight": uniform / 2,
        "conv.bias": uniform / 2,
    }
    mixer = built(name, init=init, depth=depth)
    parameters = dict(mixer.named_parameters())
    for key, std in stds.items():
        assert parameters[key].std().item() == pytest.approx(
            std, rel=4 / math.sqrt(2 * parameters[key].numel())
        ), key
    rates_N = torch.arange(1.0, 17)
    torch.testing.assert_close(mixer.a_log_PEN.exp(), rates_N.expand_as(mixer.a_log_PEN))
    assert (mixer.skip_PE == 1).all()
    assert parameters.keys() == stds.keys() | {"delta.bias", "a_log_PEN", "skip_PE"}


@pytest.mark.parametrize(("init", "out"), [("official", 0.03), ("zoology", 1.4e-3)])
def test_the_skip_carries_the_signal_at_the_start(init, out):
    mixer, x_PBLD = built(init=init), inputs(4, 4, 64, 64)
    with torch.no_grad():
        u_PBLE = mixer._projected(x_PBLD)[0]
        assert mixer(x_PBLD).square().mean().sqrt().item() == pytest.approx(out, rel=0.1)
        whole = mixer.effective_attention(x_PBLD[:, :1]).weights_PBHLL
        memory_PBEL = ((whole - torch.eye(64)) @ u_PBLE[:, :1].transpose(2, 3)[..., None]).squeeze(
            -1
        )
    assert 1e-3 < memory_PBEL.square().mean().sqrt() / u_PBLE.square().mean().sqrt() < 2e-2


# ---- sizes ----


@pytest.mark.parametrize("width", [64, 128])
def test_parameters_and_state_are_as_the_formulas_say(width):
    rank, states = width // 16, 16
    whole = built(width=width)
    assert floats(whole) == 6 * width**2 + 4 * width * rank + 6 * width * states + 14 * width
    assert floats(whole) == 6.25 * width**2 + 110 * width
    assert whole.state_size() == 2 * width * states + 6 * width
    assert floats(whole) - floats(built(width=width, kernel=0)) == 10 * width
    assert floats(whole) - floats(built(width=width, gate=False)) == 2 * width**2
    assert built(width=width, kernel=0).state_size() == 2 * width * states
    assert built(width=width, gate=False).state_size() == whole.state_size()


def test_leaving_something_out_saves_operations():
    whole = built().operations_per_token()
    assert whole - built(kernel=0).operations_per_token() == 4 * 128
    assert whole - built(gate=False).operations_per_token() == 64 * 128


def test_the_dynamics_are_told_from_weights():
    kinds = parameter_kinds(built())
    assert {name for name, kind in kinds.items() if kind == "dynamics"} == {
        "a_log_PEN",
        "skip_PE",
        "delta.bias",
    }
    assert {name for name, kind in kinds.items() if kind == "bias"} == {"conv.bias"}


@every_option
def test_it_can_be_counted_without_being_computed(options):
    with torch.device("meta"):
        mixer = build_mixer(Case("mamba", options).spec(), Site(1, 20, 33, 2, "none"))
        y_PBLD = mixer(torch.empty(1, 2, 33, 20))
    assert y_PBLD.shape == (1, 2, 33, 20)
    assert y_PBLD.device.type == "meta"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": -1}, "mixer.kernel = -1: must be at least 0; for example kernel = 4"),
        ({"state": 0}, "mixer.state = 0: must be at least 1; for example state = 16"),
        ({"init": "old"}, "mixer.init = 'old': must be one of 'official', 'zoology' or 'mimetic'"),
        ({"expand": 17}, "mixer.expand = 17: must be at most 16"),
    ],
)
@pytest.mark.parametrize("name", ["mamba", "s6"])
def test_bad_options_are_refused(name, options, message):
    with pytest.raises(SpecError) as error:
        ModelSpec.parse({"mixer": {"name": name, **options}})
    assert str(error.value).startswith(message)
