"""Gated DeltaNet: its initial decay, its counts, the recurrence from the equations,
and what it adds to DeltaNet.
"""

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.mixers.delta_net.mixer import DeltaNet
from recollect.mixers.gated_delta_net.mixer import GatedDeltaNet
from recollect.mixers.registry import MIXERS
from recollect.model.layers import parameter_kinds

DOUBLE = torch.float64


def built(options: dict | None = None, **place) -> GatedDeltaNet:
    mixer = Case("gated_delta_net", options or {}).build(**place)
    assert isinstance(mixer, GatedDeltaNet)
    return mixer


def silu(x: Tensor) -> Tensor:
    return x / (1 + (-x).exp())


def reference(mixer: GatedDeltaNet, x_BLD: Tensor, heads: int, expand_v: int, p: int) -> Tensor:
    """Member p by the equations, one row, position and head at a time."""
    width = x_BLD.shape[2]
    keys, values = width // heads, expand_v * width // heads
    weights = {name: value[p] for name, value in mixer.state_dict().items()}
    y_BLD = torch.zeros_like(x_BLD)
    for b, x_LD in enumerate(x_BLD):
        projected = x_LD @ weights["qkv.weight"]
        memories = [torch.zeros(keys, values, dtype=x_BLD.dtype) for _ in range(heads)]
        for t, x in enumerate(x_LD):
            mixed = silu(
                sum(weights["conv.weight"][3 - d] * projected[t - d] for d in range(4) if t >= d)
            )
            q, k, v = (
                part.view(heads, -1) for part in mixed.split((width, width, expand_v * width))
            )
            beta = 1 / (1 + (-x @ weights["write.weight"]).exp())
            step = (1 + (x @ weights["forget.weight"] + weights["forget.bias"]).exp()).log()
            decay = (-weights["a_log_PH"].exp() * step).exp()
            outputs = []
            for h in range(heads):
                q_h, k_h = (z / (z @ z + 1e-6).sqrt() for z in (q[h], k[h]))
                kept = decay[h] * (torch.eye(keys, dtype=x.dtype) - beta[h] * torch.outer(k_h, k_h))
                memories[h] = kept @ memories[h] + beta[h] * torch.outer(k_h, v[h])
                o = memories[h].T @ q_h / keys**0.5
                outputs.append(o / (o.square().mean() + 1e-5).sqrt() * weights["norm.weight"])
            y_BLD[b, t] = torch.cat(outputs) @ weights["out.weight"]
    return y_BLD


@pytest.mark.parametrize(("heads", "expand_v"), [(1, 2), (3, 2), (2, 1), (1, 3)])
def test_the_mixer_is_what_its_equations_say(heads, expand_v):
    mixer = spread(built({"heads": heads, "expand_v": expand_v}, population=2, dtype=DOUBLE))
    x_PBLD = inputs(2, 2, 11, 12, dtype=DOUBLE)
    with torch.no_grad():
        y_PBLD = mixer(x_PBLD)
        for p in range(2):
            torch.testing.assert_close(
                y_PBLD[p], reference(mixer, x_PBLD[p], heads, expand_v, p), rtol=1e-11, atol=1e-12
            )


def test_without_decay_it_is_delta_net():
    x_PBLD = inputs(3, 2, 30, 12, dtype=DOUBLE)
    gated, plain = (
        spread(built({"expand_v": 1}, dtype=DOUBLE)),
        Case("delta_net").build(dtype=DOUBLE),
    )
    assert isinstance(plain, DeltaNet)
    with torch.no_grad():
        gated.a_log_PH.fill_(-1e3)
        plain.load_state_dict(
            {
                name: value
                for name, value in gated.state_dict().items()
                if name in plain.state_dict()
            }
        )
        torch.testing.assert_close(gated(x_PBLD), plain(x_PBLD), rtol=1e-12, atol=1e-13)


def test_the_matrix_is_the_one_of_the_formula():
    """DeltaNet's, both products of positions i and j multiplied by exp(g_{j+1} + ... + g_i)."""
    mixer, x_PBLD = spread(built({"heads": 2}, dtype=DOUBLE)), inputs(3, 2, 20, 12, dtype=DOUBLE)
    q, k, v, beta, g = mixer._over_time(x_PBLD)
    sums = g.cumsum(-1)
    decay = (sums[..., :, None] - sums[..., None, :]).clamp(max=0).exp()
    overlap = (beta[..., None] * (k @ k.mT) * decay).tril(-1)
    solved = torch.linalg.inv(torch.eye(20, dtype=DOUBLE) + overlap) @ torch.diag_embed(beta)
    found = mixer.effective_attention(x_PBLD)
    torch.testing.assert_close(
        found.weights_PBHLL, (q @ k.mT * decay).tril() @ solved, rtol=1e-9, atol=1e-12
    )
    torch.testing.assert_close(found.values_PBHLD, v)


# ---- initialisation ----


def test_initial_rates_and_steps_have_the_stated_distributions():
    mixer = built({"heads": 512}, population=4, width=512, length=4)
    rates, steps = (
        mixer.a_log_PH.detach().exp(),
        torch.nn.functional.softplus(mixer.forget.bias.detach()),
    )
    wanted = torch.linspace(0, 1, 11)
    assert rates.min() > 0
    torch.testing.assert_close((rates / 16).quantile(wanted), wanted, rtol=0, atol=0.03)
    torch.testing.assert_close(
        (steps.log10() + 3).div(2).quantile(wanted), wanted, rtol=0, atol=0.03
    )
    assert (-rates * steps).exp().median().item() == pytest.approx(0.94, abs=0.01)
    assert mixer.forget.weight.std().item() == pytest.approx(0.02, rel=0.03)
    assert mixer.qkv.weight.std().item() == pytest.approx(0.02, rel=0.03)


def test_a_rate_of_zero_is_never_drawn(monkeypatch):
    mixer = built()
    monkeypatch.setattr(torch, "rand", lambda *shape, generator=None: torch.zeros(shape))
    assert mixer.draw(torch.Generator())["a_log_PH"].isfinite().all()


def test_what_sets_the_decay_is_exempt_from_weight_decay_with_dynamics():
    kinds = parameter_kinds(built())
    assert kinds["a_log_PH"] == kinds["forget.bias"] == "dynamics"
    assert kinds["forget.weight"] == kinds["qkv.weight"] == "weight"


# ---- counts ----


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("heads", [1, 2])
def test_parameters_and_state_are_as_many_as_computed_by_hand(width, heads):
    mixer = built({"heads": heads}, population=1, width=width)
    # Zoology's count, less its D per head that nothing uses.
    computed = (
        6 * width**2 + 2 * width * heads + 16 * width + 3 * heads + 2 * width // heads - heads
    )
    assert sum(value.numel() for value in mixer.parameters()) == computed
    assert mixer.state_size() == 2 * width**2 // heads + 12 * width
    gated = built({"heads": heads, "gate": True}, population=1, width=width)
    assert sum(value.numel() for value in gated.parameters()) == computed + 2 * width**2


def test_operations_count_the_decay_too():
    options = {"expand_v": 1, "heads": 2}
    mixer = built(options, population=1, width=64)
    plain = Case("delta_net", {"heads": 2}).build(population=1, width=64)
    assert mixer.operations_per_token() == plain.operations_per_token() + 2 * 64


# ---- stress ----


def test_strong_decay_forgets_and_stays_finite():
    mixer, x_PBLD = spread(built(length=512)), inputs(3, 2, 512, 12)
    with torch.no_grad():
        mixer.a_log_PH.fill_(8.0)
    x_PBLD.requires_grad_()
    mixer(x_PBLD).square().sum().backward()
    for name, tensor in [("input", x_PBLD), *mixer.named_parameters()]:
        assert tensor.grad.isfinite().all(), name
    weights = mixer.effective_attention(x_PBLD.detach()).weights_PBHLL.detach()
    assert weights.diagonal(0, -2, -1).abs().max() > 0.01
    assert weights.tril(-1).abs().max() < 1e-6


@pytest.mark.parametrize("negative", [False, True])
def test_fillers_at_most_positions_stay_accurate_in_float32(negative):
    mixer = spread(built({"negative": negative}, population=2, width=32, length=512))
    x_PBLD = inputs(2, 2, 512, 32)
    x_PBLD[:, :, torch.arange(512) % 4 != 0] = x_PBLD[:, :, :1]
    with torch.no_grad():
        mixer.a_log_PH.fill_(-6.0)
        y = mixer(x_PBLD)
        wanted = mixer.to(DOUBLE)(x_PBLD.double())
    assert float((y - wanted).abs().max() / wanted.abs().max()) < 2e-5


# ---- refusals ----


def test_heads_must_divide_the_width():
    with pytest.raises(
        ValueError, match=r"mixer.heads = 6: must divide width = 64; for example heads = 1"
    ):
        MIXERS["gated_delta_net"].model_validate({"name": "gated_delta_net", "heads": 6}).check(
            64, 1, "none"
        )


@pytest.mark.parametrize(
    "bad", [{"expand_v": 0}, {"expand_v": 17}, {"heads": 1025}, {"gate": "no way"}], ids=str
)
def test_bad_options_are_refused_by_name(bad):
    with pytest.raises(ValidationError, match=next(iter(bad))):
        MIXERS["gated_delta_net"].model_validate({"name": "gated_delta_net", **bad})
