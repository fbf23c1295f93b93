"""H3: its two state spaces step by step, their kernels from the formulas,
the start values, what it costs, hard numbers.
"""

import cmath
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
HEADS = [1, 2, 3, 6]


def built(
    width: int = 64,
    length: int = 64,
    population: int = 4,
    dtype: torch.dtype = torch.float32,
    **options,
):
    return Case("h3", options).build(population=population, width=width, length=length, dtype=dtype)


def floats(mixer) -> int:
    return sum(parameter[0].numel() for parameter in mixer.parameters())


def rms(values: Tensor) -> float:
    return values.square().mean().sqrt().item()


# ---- the function ----


def reference(mixer, p: int, x_LD: Tensor) -> Tensor:
    """One member and row: both states stepped in complex numbers, one head after the other."""
    weights = {name: value[p] for name, value in mixer.named_parameters()}
    width, size, heads = x_LD.shape[1], mixer.spec.head, mixer.heads
    register = torch.zeros(width, mixer.state, dtype=DOUBLE)
    a_HM = -weights["a_PHM"].exp() + 1j * weights["omega_PHM"]
    dt_H1 = weights["log_dt_PH"].exp()[:, None]
    ad_HM = (1 + dt_H1 * a_HM / 2) / (1 - dt_H1 * a_HM / 2)
    bd_HM = torch.view_as_complex(weights["b_PHM2"]) * dt_H1 / (1 - dt_H1 * a_HM / 2)
    c_HM = torch.view_as_complex(weights["c_PHM2"])
    memory = torch.zeros(heads, size, size, mixer.state // 2, dtype=torch.complex128)
    outputs = []
    for x in x_LD:
        q, k, v = (
            x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]
            for name in ("query", "key", "value")
        )
        register = (
            torch.cat((torch.zeros(width, 1, dtype=DOUBLE), register[:, :-1]), dim=1)
            + weights["shift_b_PDN"] * k[:, None]
        )
        shifted = (register * weights["shift_c_PDN"]).sum(1) + weights["shift_skip_PD"] * k
        y = torch.zeros(width, dtype=DOUBLE)
        for h in range(heads):
            own = slice(h * size, (h + 1) * size)
            product = torch.outer(shifted[own], v[own])
            memory[h] = ad_HM[h] * memory[h] + bd_HM[h] * product[..., None]
            mixed = 2 * (c_HM[h] * memory[h]).sum(-1).real + weights["skip_PH"][h] * product
            y[own] = q[own] @ mixed
        outputs.append(y @ weights["out.weight"] + weights["out.bias"])
    return torch.stack(outputs)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    ("state", "length"), [(8, 1), (8, 2), (8, 37), (2, 37), (0, 37), (64, 20), (8, 150)]
)
def test_it_is_its_two_state_spaces(head, state, length):
    mixer = spread(
        built(width=12, length=max(length, 37), population=2, dtype=DOUBLE, head=head, state=state)
    )
    x_PBLD = inputs(2, 1, length, 12, dtype=DOUBLE)
    with torch.no_grad():
        for p in range(2):
            wanted = reference(mixer, p, x_PBLD[p, 0])
            torch.testing.assert_close(
                mixer(x_PBLD)[p, 0], wanted, rtol=0, atol=1e-12 * wanted.abs().max().clamp(min=1)
            )


@pytest.mark.parametrize("length", [1, 5, 8, 30])
def test_the_kernels_are_the_formulas(length):
    mixer = spread(built(width=4, length=30, population=1, dtype=DOUBLE, state=8)).requires_grad_(
        False
    )
    shift_DL, diagonal_HL = mixer._shift_kernel(length)[0], mixer._diagonal_kernel(length)[0]
    assert shift_DL.shape == (4, length)
    assert diagonal_HL.shape == (2, length)
    b_DN, c_DN = mixer.shift_b_PDN[0].tolist(), mixer.shift_c_PDN[0].tolist()
    for d in range(4):
        for t in range(length):
            wanted = sum(b_DN[d][j] * c_DN[d][j + t] for j in range(8 - t)) if t < 8 else 0.0
            assert shift_DL[d, t].item() == pytest.approx(wanted, abs=1e-13)
    for h in range(2):
        dt = math.exp(mixer.log_dt_PH[0, h])
        for t in range(length):
            wanted = 0.0
            for m in range(4):
                a = complex(-math.exp(mixer.a_PHM[0, h, m]), mixer.omega_PHM[0, h, m])
                b, c = (
                    complex(*mixer.b_PHM2[0, h, m].tolist()),
                    complex(*mixer.c_PHM2[0, h, m].tolist()),
                )
                discrete = (1 + dt * a / 2) / (1 - dt * a / 2)
                wanted += (
                    2 * (c * b * dt / (1 - dt * a / 2) * cmath.exp(t * cmath.log(discrete))).real
                )
            assert diagonal_HL[h, t].item() == pytest.approx(wanted, abs=1e-13)


def test_keys_older_than_the_register_are_gone():
    """Without the diagonal kernel only the shift sees the past, N positions of it."""
    mixer = spread(built(width=6, length=30, population=1, dtype=DOUBLE, state=8))
    with torch.no_grad():
        mixer.c_PHM2.zero_()
    x_PBLD = inputs(1, 1, 30, 6, dtype=DOUBLE)
    other_PBLD = x_PBLD.clone()
    other_PBLD[:, :, 5] += 1
    changed_L = (mixer(x_PBLD) - mixer(other_PBLD)).abs().amax(-1)[0, 0] > 1e-13
    assert changed_L.nonzero().flatten().tolist() == list(range(5, 5 + 8))


def test_heads_share_nothing_before_the_output_layer():
    mixer = spread(built(width=12, population=1, dtype=DOUBLE, head=4, state=8))
    effective = mixer.effective_attention(inputs(1, 2, 9, 12, dtype=DOUBLE))
    assert effective.weights_PBHLL.shape == (1, 2, 3, 9, 9)
    assert effective.values_PBHLD.shape == (1, 2, 3, 9, 4)
    assert not torch.allclose(effective.weights_PBHLL[:, :, 0], effective.weights_PBHLL[:, :, 1])


def test_the_size_of_a_head_is_another_function():
    x_PBLD, outputs = inputs(2, 2, 16, 12), []
    for head in HEADS:
        outputs.append(built(width=12, length=16, population=2, head=head, state=8)(x_PBLD))
    assert all(not torch.allclose(outputs[0], other) for other in outputs[1:])


def test_a_state_of_zero_is_the_length_made_even():
    assert built(width=8, length=64).state == 64
    assert built(width=8, length=37).state == 38
    assert built(width=8, length=1).state == 2
    assert built(width=8, length=64, state=16).state == 16


# ---- hard numbers ----


@pytest.mark.parametrize("length", [64, 512])
@pytest.mark.parametrize("log_dt", [-20.0, 0.0, 5.0, 30.0])
def test_any_step_size_gives_finite_outputs_and_gradients(length, log_dt):
    mixer = built(width=4, length=length, population=1)
    with torch.no_grad():
        mixer.log_dt_PH.fill_(log_dt)
    x_PBLD = inputs(1, 1, length, 4).requires_grad_()
    y_PBLD = mixer(x_PBLD)
    assert y_PBLD.isfinite().all()
    y_PBLD.square().sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in (x_PBLD, *mixer.parameters()))


def test_a_mode_that_is_forgotten_at_once_has_finite_gradients():
    """dt A / 2 = -1 makes Ad zero, where a logarithm would be infinite."""
    mixer = built(width=4, length=16, population=1, dtype=DOUBLE, state=4)
    with torch.no_grad():
        mixer.a_PHM.zero_()
        mixer.omega_PHM.zero_()
        mixer.log_dt_PH.fill_(math.log(2))
    discrete, _ = mixer._discrete()
    assert discrete[0].abs().max() < 1e-15
    x_PBLD = inputs(1, 1, 16, 4, dtype=DOUBLE)
    mixer(x_PBLD).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in mixer.parameters())


def test_every_mode_decays_whatever_its_parameters():
    mixer = built(width=8, length=64, population=1)
    with torch.no_grad():
        for parameter in (mixer.a_PHM, mixer.omega_PHM, mixer.log_dt_PH):
            parameter.add_(5 * inputs(*parameter.shape))
    real, imag = mixer._discrete()[0]
    assert (real.square() + imag.square()).max() <= 1 + 1e-6


def test_single_precision_is_good_for_long_kernels():
    """The fastest mode turns by nearly half a circle per step, 512 times."""
    mixer = built(width=8, length=512, population=2)
    single, double = mixer._diagonal_kernel(512), mixer.double()._diagonal_kernel(512)
    assert (single - double).abs().max() < 2e-5 * double.abs().max()


# ---- initialisation ----


def test_the_shift_starts_as_a_register_read_at_random():
    mixer = built()
    assert (mixer.shift_b_PDN[..., 0] == 1).all()
    assert not mixer.shift_b_PDN[..., 1:].any()
    assert 0.99 / 8 < mixer.shift_c_PDN.abs().max() <= 1 / 8
    assert rms(mixer._shift_kernel(64)) == pytest.approx(0.072, rel=0.02)
    torch.testing.assert_close(mixer._shift_kernel(64), mixer.shift_c_PDN, rtol=0, atol=1e-6)


def test_the_diagonal_starts_with_evenly_spaced_frequencies():
    mixer = built(width=256, length=64)
    torch.testing.assert_close(-mixer.a_PHM.exp(), torch.full((4, 128, 32), -0.5))
    torch.testing.assert_close(mixer.omega_PHM, (math.pi * torch.arange(32)).expand(4, 128, 32))
    assert (mixer.b_PHM2[..., 0] == 1).all()
    assert not mixer.b_PHM2[..., 1].any()
    assert mixer.c_PHM2[..., 0].var().item() == pytest.approx(0.5, rel=0.05)
    assert mixer.c_PHM2[..., 1].var().item() == pytest.approx(0.5, rel=0.05)
    steps = mixer.log_dt_PH.exp().flatten()
    assert steps.min() >= 0.999e-3
    assert steps.max() <= 1.001e-1
    found = steps.quantile(torch.tensor([0.05, 0.5, 0.95])).tolist()
    assert found == pytest.approx([0.00126, 0.01, 0.079], rel=0.2)


def test_the_diagonal_kernel_starts_at_a_tenth():
    """E K^2 = 2 sum_n |Bd_n|^2 |Ad_n|^(2t); over step sizes and 64 lags its root is 0.116."""
    mixer = built(width=256, length=64)
    assert rms(mixer._diagonal_kernel(64)) == pytest.approx(0.116, rel=0.07)


def test_linear_layers_start_small_and_direct_paths_at_one():
    mixer = built(width=256, state=2)
    for linear in (mixer.query, mixer.key, mixer.value, mixer.out):
        assert linear.weight.std().item() == pytest.approx(0.02, rel=0.02)
        assert not linear.bias.any()
    assert mixer.shift_skip_PD.std().item() == pytest.approx(1, rel=0.1)
    assert mixer.skip_PH.std().item() == pytest.approx(1, rel=0.1)


# ---- what it states ----


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize(("head", "state"), [(2, 64), (1, 64), (8, 16)])
def test_parameters_and_state(width, head, state):
    mixer, heads = built(width, head=head, state=state), width // head
    formula = 4 * width**2 + 5 * width + heads + 2 * width * state + 3 * heads * state + heads
    assert floats(mixer) == formula
    assert mixer.state_size() == width * state * (1 + head)


def test_parameters_of_the_default():
    assert floats(built()) == 31_104


@pytest.mark.parametrize(("width", "total"), [(64, 587_136), (128, 1_239_808)])
def test_a_model_has_zoologys_parameters(width, total):
    spec = ModelSpec.parse({"mixer": "h3", "width": width, "depth": 2, "block": "mixer+identity"})
    assert Model(spec, population=1, vocabulary=8192, length=64).parameters_per_member() == total


def test_everything_that_sets_the_memory_is_of_a_kind_of_its_own():
    kinds = parameter_kinds(built(state=2))
    dynamics = {
        "shift_b_PDN",
        "shift_skip_PD",
        "a_PHM",
        "omega_PHM",
        "b_PHM2",
        "log_dt_PH",
        "skip_PH",
    }
    assert {name for name, kind in kinds.items() if kind == "dynamics"} == dynamics
    assert kinds["shift_c_PDN"] == kinds["c_PHM2"] == "weight"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"state": 7},
            r"mixer\.state = 7: complex numbers come in pairs, so it must be even; for example 64",
        ),
        ({"head": 5}, r"mixer\.head = 5: must divide width = 64; for example head = 1"),
        ({"head": 0}, "head = 0"),
        ({"state": -2}, "state = -2"),
    ],
)
def test_bad_options_are_refused_by_name(options, words):
    with pytest.raises(SpecError, match=words):
        ModelSpec.parse({"mixer": {"name": "h3", **options}, "width": 64})
