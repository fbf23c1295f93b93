"""DeltaNet: its initial scale, its counts, the recurrence from the equations,
and what each option does.
"""

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.mixers.delta_net.mixer import DeltaNet
from recollect.mixers.registry import MIXERS
from recollect.model.layers import parameter_kinds

DOUBLE = torch.float64


def built(options: dict | None = None, **place) -> DeltaNet:
    mixer = Case("delta_net", options or {}).build(**place)
    assert isinstance(mixer, DeltaNet)
    return mixer


def silu(x: Tensor) -> Tensor:
    return x / (1 + (-x).exp())


def reference(mixer: DeltaNet, x_BLD: Tensor, heads: int, p: int, negative: bool = False) -> Tensor:
    """Member p by the equations, one row, position and head at a time."""
    width = x_BLD.shape[2]
    weights = {name: value[p] for name, value in mixer.state_dict().items()}
    y_BLD = torch.zeros_like(x_BLD)
    for b, x_LD in enumerate(x_BLD):
        projected = x_LD @ weights["qkv.weight"]
        memories = [
            torch.zeros(width // heads, width // heads, dtype=x_BLD.dtype) for _ in range(heads)
        ]
        for t in range(len(x_LD)):
            taps = weights["conv.weight"]
            mixed = sum(taps[-1 - d] * projected[t - d] for d in range(len(taps)) if t >= d)
            q, k, v = (part.view(heads, -1) for part in silu(mixed).chunk(3))
            beta = (2 if negative else 1) / (1 + (-x_LD[t] @ weights["write.weight"]).exp())
            outputs = []
            for h in range(heads):
                q_h, k_h = (z / (z @ z + 1e-6).sqrt() for z in (q[h], k[h]))
                memories[h] = memories[h] + beta[h] * torch.outer(k_h, v[h] - memories[h].T @ k_h)
                o = memories[h].T @ q_h / (width // heads) ** 0.5
                outputs.append(o / (o.square().mean() + 1e-5).sqrt() * weights["norm.weight"])
            y = torch.cat(outputs)
            if "gate.weight" in weights:
                y = y * silu(x_LD[t] @ weights["gate.weight"])
            y_BLD[b, t] = y @ weights["out.weight"]
    return y_BLD


@pytest.mark.parametrize(
    "options",
    [{}, {"heads": 3}, {"gate": True}, {"heads": 2, "negative": True}, {"kernel": 1}],
    ids=str,
)
def test_the_mixer_is_what_its_equations_say(options):
    mixer, x_PBLD = (
        spread(built(options, population=2, dtype=DOUBLE)),
        inputs(2, 2, 11, 12, dtype=DOUBLE),
    )
    with torch.no_grad():
        y_PBLD = mixer(x_PBLD)
        for p in range(2):
            wanted = reference(
                mixer, x_PBLD[p], options.get("heads", 1), p, options.get("negative", False)
            )
            torch.testing.assert_close(y_PBLD[p], wanted, rtol=1e-11, atol=1e-12)


def test_the_matrix_is_the_one_of_the_formula():
    """tril(Q K^T) (I + strictly_lower(diag(beta) K K^T))^-1 diag(beta), with a plain inverse."""
    mixer, x_PBLD = spread(built({"heads": 2}, dtype=DOUBLE)), inputs(3, 2, 20, 12, dtype=DOUBLE)
    q, k, v, beta, _ = mixer._over_time(x_PBLD)
    overlap = (beta[..., None] * (k @ k.mT)).tril(-1)
    wanted = (
        (q @ k.mT).tril()
        @ torch.linalg.inv(torch.eye(20, dtype=DOUBLE) + overlap)
        @ torch.diag_embed(beta)
    )
    found = mixer.effective_attention(x_PBLD)
    torch.testing.assert_close(found.weights_PBHLL, wanted, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.values_PBHLD, v)


# ---- initialisation ----


def test_initial_weights_have_the_stated_scales():
    mixer = built({"gate": True}, population=4, width=64)
    for name in ("qkv", "gate", "out"):
        assert mixer.get_submodule(name).weight.std().item() == pytest.approx(0.02, rel=0.03)
    assert mixer.write.weight.std().item() == pytest.approx(0.02, rel=0.2)
    taps = mixer.conv.weight
    assert 0.49 < taps.abs().max() <= 0.5
    assert taps.std().item() == pytest.approx(0.5 / 3**0.5, rel=0.05)
    assert (mixer.norm.weight == 1).all()
    assert not [name for name, _ in mixer.named_parameters() if "bias" in name]


@pytest.mark.parametrize(("width", "squares"), [(64, 2.9e-6), (128, 1.9e-6), (256, 9.8e-7)])
def test_the_output_of_the_rule_starts_below_the_epsilon_of_its_norm(width, squares):
    mixer, x_PBLD = built(population=4, width=width, length=64), inputs(4, 8, 64, width)
    with torch.no_grad():
        effective = mixer.effective_attention(x_PBLD)
        o_PBHLE = effective.weights_PBHLL @ effective.values_PBHLD
        beta_PBHL = mixer._over_time(x_PBLD)[3]
    assert float(o_PBHLE.square().mean()) == pytest.approx(squares, rel=0.25)
    assert float(beta_PBHL.mean()) == pytest.approx(0.5, abs=0.01)
    assert mixer.norm.eps == 1e-5


# ---- counts ----


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("heads", [1, 2])
def test_parameters_and_state_are_as_many_as_computed_by_hand(width, heads):
    mixer = built({"heads": heads}, population=1, width=width)
    assert (
        sum(value.numel() for value in mixer.parameters())
        == 4 * width**2 + width * heads + 12 * width + width // heads
    )
    assert mixer.state_size() == width**2 // heads + 9 * width
    gated = built({"heads": heads, "gate": True}, population=1, width=width)
    assert (
        sum(value.numel() for value in gated.parameters())
        - sum(value.numel() for value in mixer.parameters())
        == width**2
    )
    assert set(parameter_kinds(mixer).values()) == {"weight", "norm"}


def test_operations_are_those_of_the_products():
    short, long = (
        built(population=1, width=64, length=64),
        built(population=1, width=64, length=512),
    )
    linear = 4 * 64**2 + 64 + 3 * 64 * 4
    inside = 64 * (2 * 64 + 64 + 32)
    assert short.operations_per_token() == linear + inside + 64**2
    assert long.operations_per_token() == linear + inside + 64**2 + 2 * 64**2 * 7 // 8


# ---- options ----


def test_negative_doubles_beta_and_can_flip_a_memory():
    x_PBLD = inputs(3, 2, 30, 12, dtype=DOUBLE) * 5
    plain, doubled = spread(built(dtype=DOUBLE)), spread(built({"negative": True}, dtype=DOUBLE))
    beta, twice = plain._over_time(x_PBLD)[3], doubled._over_time(x_PBLD)[3]
    assert torch.equal(twice, 2 * beta)
    assert twice.max() > 1.5
    assert beta.max() < 1


def test_no_kernel_leaves_a_product_of_single_positions():
    mixer, x_PBLD = spread(built({"kernel": 0}, dtype=DOUBLE)), inputs(3, 2, 10, 12, dtype=DOUBLE)
    assert mixer.conv is None
    other_PBLD = x_PBLD.clone()
    other_PBLD[:, :, 4] += 1
    for name, before, after in zip(
        "qkv", mixer._over_time(x_PBLD), mixer._over_time(other_PBLD), strict=False
    ):
        changed = (before != after).flatten(0, 2).any(0).any(-1)
        assert changed.nonzero().flatten().tolist() == [4], name
    with_kernel = spread(built(dtype=DOUBLE))
    k, k_other = with_kernel._over_time(x_PBLD)[1], with_kernel._over_time(other_PBLD)[1]
    assert (k != k_other).flatten(0, 2).any(0).any(-1).nonzero().flatten().tolist() == [4, 5, 6, 7]


def test_bf16_rounds_keys_queries_and_values_and_nothing_else():
    x_PBLD = inputs(3, 2, 30, 16)
    full, rounded = (
        spread(Case("delta_net", {"precision": precision}).build(width=16))
        for precision in ("fp32", "bf16")
    )
    exact, coarse = full._over_time(x_PBLD), rounded._over_time(x_PBLD)
    qkv = torch.nn.functional.silu(full.conv(full.qkv(x_PBLD))).bfloat16().float()
    q, k, v = (part[:, :, None] for part in qkv.chunk(3, dim=-1))
    q, k = (part / (part.square().sum(-1, keepdim=True) + 1e-6).sqrt() for part in (q, k))
    torch.testing.assert_close(coarse[:3], (q / 4, k, v), rtol=1e-6, atol=0)
    assert (coarse[0] != exact[0]).any()
    assert torch.equal(coarse[3], exact[3])
    y, z = full(x_PBLD).detach(), rounded(x_PBLD).detach()
    assert y.dtype == z.dtype == torch.float32
    assert 1e-4 < float((y - z).abs().max() / y.abs().max()) < 5e-2


def test_bf16_passes_gradients_on():
    x_PBLD = inputs(3, 2, 30, 12)
    gradients = []
    for precision in ("fp32", "bf16"):
        mixer = spread(built({"precision": precision}))
        gradients.append(
            torch.autograd.grad(mixer(x_PBLD).square().sum(), list(mixer.parameters()))
        )
    for (name, _), one, other in zip(mixer.named_parameters(), *gradients, strict=True):
        assert float((one - other).abs().max() / one.abs().max()) < 0.1, name


def test_a_closed_gate_lets_nothing_through():
    mixer, x_PBLD = spread(built({"gate": True})), inputs(3, 2, 10, 12).abs()
    with torch.no_grad():
        mixer.gate.weight.fill_(-50.0)
    assert mixer(x_PBLD).abs().max() < 1e-6


# ---- stress ----


@pytest.mark.parametrize("negative", [False, True])
def test_fillers_at_most_positions_and_saturated_beta_stay_accurate_in_float32(negative):
    """The same token at three of four of 512 positions, beta close to 1 or 2."""
    mixer = spread(built({"negative": negative}, population=2, width=32, length=512))
    x_PBLD = inputs(2, 2, 512, 32)
    x_PBLD[:, :, torch.arange(512) % 4 != 0] = x_PBLD[:, :, :1]
    with torch.no_grad():
        mixer.write.weight += 3 * x_PBLD[:, 0, 0, :, None] / 32
        y = mixer(x_PBLD)
        wanted = mixer.to(DOUBLE)(x_PBLD.double())
    beta = mixer._over_time(x_PBLD.double())[3]
    assert beta[:, 0, 0, 1].min() > (1.8 if negative else 0.9)
    assert float((y - wanted).abs().max() / wanted.abs().max()) < 2e-5


# ---- refusals ----


def test_heads_must_divide_the_width():
    with pytest.raises(
        ValueError, match=r"mixer.heads = 5: must divide width = 64; for example heads = 1"
    ):
        MIXERS["delta_net"].model_validate({"name": "delta_net", "heads": 5}).check(64, 1, "none")


@pytest.mark.parametrize(
    "bad",
    [{"heads": 0}, {"kernel": -1}, {"kernel": 65}, {"precision": "fp16"}, {"expand_v": 2}],
    ids=str,
)
def test_bad_options_are_refused_by_name(bad):
    with pytest.raises(ValidationError, match=next(iter(bad))):
        MIXERS["delta_net"].model_validate({"name": "delta_net", **bad})
