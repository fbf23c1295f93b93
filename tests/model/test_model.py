"""The model around a mixer: against a plain float64 rewriting, and by its totals, initial
statistics and first loss.
"""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.mixers.registry import MIXERS
from recollect.model.layers import initialise
from recollect.model.model import Model, SinusoidalPositions
from recollect.ops.layout import rotate
from recollect.spec.model import ModelSpec
from recollect.tasks.base import IGNORE, Batch

P, B, L, V = 2, 3, 10, 13


def model_of(
    table: dict[str, Any], population: int = P, vocabulary: int = V, length: int = L
) -> Model:
    model = Model(ModelSpec.parse(table), population, vocabulary, length)
    initialise(model, list(range(population)))
    return model


def some_batch(labels: int = 4, rows: int = B, length: int = L, vocabulary: int = V) -> Batch:
    generator = torch.Generator().manual_seed(2)
    tokens_BL = torch.randint(vocabulary, (rows, length), generator=generator)
    where_BK = torch.stack(
        [torch.randperm(length, generator=generator)[:labels] for _ in range(rows)]
    )
    labels_BK = torch.randint(vocabulary, (rows, labels), generator=generator)
    labels_BK[0, 0] = IGNORE
    return Batch(tokens_BL, where_BK, labels_BK, labels_BK != IGNORE)


# ---- the same model, written plainly for one member ----


def plain_attention(
    weights: dict[str, Tensor], x_BLD: Tensor, heads: int, positions: str
) -> Tensor:
    q, k, v = (x_BLD @ weights["qkv.weight"] + weights["qkv.bias"]).chunk(3, dim=-1)
    length, width = x_BLD.shape[1], x_BLD.shape[2] // heads
    outputs = []
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        q_h, k_h, v_h = q[..., part], k[..., part], v[..., part]
        if positions == "rope":
            q_h, k_h = complex_rotation(q_h), complex_rotation(k_h)
        scores = torch.full((x_BLD.shape[0], length, length), -math.inf, dtype=x_BLD.dtype)
        for i in range(length):
            for j in range(i + 1):
                scores[:, i, j] = (q_h[:, i] * k_h[:, j]).sum(-1) / math.sqrt(width)
                if positions == "relative":
                    scores[:, i, j] += weights["relative_PHL"][head, i - j]
        exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))
        outputs.append(exponentials / exponentials.sum(-1, keepdim=True) @ v_h)
    return torch.cat(outputs, dim=-1) @ weights["out.weight"] + weights["out.bias"]


def complex_rotation(x_BLD: Tensor) -> Tensor:
    """Channel i and i + D/2 as one complex number, turned by position * 10000^(-2i/D)."""
    half = x_BLD.shape[-1] // 2
    numbers = torch.complex(x_BLD[..., :half], x_BLD[..., half:])
    frequencies = torch.tensor(
        [10_000 ** (-2 * i / (2 * half)) for i in range(half)], dtype=torch.float64
    )
    turned = numbers * torch.exp(1j * torch.arange(x_BLD.shape[1])[:, None] * frequencies)
    return torch.cat((turned.real, turned.imag), dim=-1)


def plain_mamba(weights: dict[str, Tensor], x_BLD: Tensor) -> Tensor:
    inner, state = weights["a_log_PEN"].shape
    rank = weights["delta.weight"].shape[0]
    u0, gate = (x_BLD @ weights["into.weight"]).split(inner, dim=-1)
    conv = F.conv1d(
        F.pad(u0.transpose(1, 2), (3, 0)),
        weights["conv.weight"].T[:, None],
        weights["conv.bias"],
        groups=inner,
    )
    u = F.silu(conv.transpose(1, 2))
    low, b, c = (u @ weights["select.weight"]).split((rank, state, state), dim=-1)
    delta = torch.log1p(torch.exp(low @ weights["delta.weight"] + weights["delta.bias"]))
    a, h, outputs = (
        -torch.exp(weights["a_log_PEN"]),
        torch.zeros(x_BLD.shape[0], inner, state, dtype=x_BLD.dtype),
        [],
    )
    for t in range(x_BLD.shape[1]):
        h = (
            torch.exp(delta[:, t, :, None] * a) * h
            + (delta[:, t] * u[:, t])[..., None] * b[:, t, None]
        )
        outputs.append((h * c[:, t, None]).sum(-1) + weights["skip_PE"] * u[:, t])
    return (torch.stack(outputs, dim=1) * F.silu(gate)) @ weights["out.weight"]


def plain_logits(spec: ModelSpec, weights: dict[str, Tensor], tokens_BL: Tensor) -> Tensor:
    """All positions, one member: (B, L, V)."""
    width = spec.width

    def part(prefix: str) -> dict[str, Tensor]:
        return {
            name.removeprefix(prefix): value
            for name, value in weights.items()
            if name.startswith(prefix)
        }

    def norm(x: Tensor, prefix: str) -> Tensor:
        if f"{prefix}.bias" in weights:
            return F.layer_norm(x, (width,), weights[f"{prefix}.weight"], weights[f"{prefix}.bias"])
        return F.rms_norm(x, (width,), weights[f"{prefix}.weight"], 1e-5)

    x = weights["embedding.weight"][tokens_BL]
    if spec.positions == "learned":
        x = x + weights["positions.weight"][: tokens_BL.shape[1]]
    for layer in range(spec.depth):
        mixer, normed = part(f"blocks.{layer}.mixer."), norm(x, f"blocks.{layer}.norm_mixer")
        before = x
        if spec.mixer.name == "mamba":
            x = x + plain_mamba(mixer, normed)
        else:
            x = x + plain_attention(mixer, normed, spec.mixer.heads, spec.positions)
        if spec.block != "mixer":
            seen = before if spec.residual == "parallel" else x
            normed = norm(seen, f"blocks.{layer}.norm_channel")
            mlp = part(f"blocks.{layer}.channel.")
            if spec.block == "mixer+mlp":
                normed = (
                    F.gelu(normed @ mlp["up.weight"] + mlp["up.bias"]) @ mlp["down.weight"]
                    + mlp["down.bias"]
                )
            x = x + normed
    head = "embedding" if spec.head == "tied" else "head"
    return norm(x, "norm") @ weights[f"{head}.weight"].T


VARIANTS = [
    {"mixer": "attention"},
    {"mixer": "attention", "block": "mixer+identity", "depth": 1},
    {"mixer": {"name": "attention", "heads": 4}, "positions": "rope", "norm": "rms"},
    {"mixer": {"name": "attention", "heads": 2}, "positions": "relative", "block": "mixer"},
    {"mixer": "mamba"},
    {"mixer": "mamba", "block": "mixer+mlp", "positions": "learned", "depth": 3, "mlp_ratio": 2},
    {"mixer": "attention", "residual": "parallel", "head": "untied"},
    {"mixer": "attention", "residual": "parallel", "block": "mixer+identity", "norm": "rms"},
    {"mixer": "mamba", "block": "mixer+mlp", "residual": "parallel", "depth": 3},
]


@pytest.mark.parametrize("table", VARIANTS, ids=[str(table) for table in VARIANTS])
def test_loss_and_gradients_are_those_of_the_plain_model_read_at_full_length(table):
    table = {"width": 8, **table}
    model = model_of(table).double()
    with torch.no_grad():  # zeros and ones would hide mistakes
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(
                parameter.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64
            )
    batch = some_batch()
    loss_P = model.loss(batch)
    loss_P.sum().backward()
    labels_BL = torch.full((B, L), IGNORE).scatter_(1, batch.where_BK, batch.labels_BK)
    for p in range(P):
        weights = {
            name: value[p].detach().clone().requires_grad_()
            for name, value in model.named_parameters()
        }
        logits_BLV = plain_logits(ModelSpec.parse(table), weights, batch.tokens_BL)
        loss = F.cross_entropy(
            logits_BLV.flatten(0, 1), labels_BL.flatten(), ignore_index=IGNORE, reduction="sum"
        )
        loss.backward()
        torch.testing.assert_close(loss_P[p], loss, rtol=1e-10, atol=1e-10)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(
                parameter.grad[p],
                weights[name].grad,
                rtol=1e-8,
                atol=1e-9,
                msg=lambda t, n=name: f"{n}: {t}",
            )


def test_a_slot_without_label_adds_nothing():
    model, batch = model_of({"mixer": "attention", "width": 8}), some_batch()
    emptied = Batch(
        batch.tokens_BL, batch.where_BK, torch.full_like(batch.labels_BK, IGNORE), batch.scored_BK
    )
    assert model.loss(emptied).tolist() == [0.0, 0.0]


# ---- positions ----


@pytest.mark.parametrize("width", [2, 6, 7])
def test_sinusoidal_positions_follow_the_closed_formula(width):
    table = SinusoidalPositions(9, width)(9)
    for position in range(9):
        for channel in range(width):
            angle = position / 10_000 ** (2 * (channel // 2) / width)
            value = math.sin(angle) if channel % 2 == 0 else math.cos(angle)
            assert table[position, channel].item() == pytest.approx(
                0.02 * math.sqrt(2) * value, abs=1e-7
            )


def test_sinusoidal_positions_are_as_large_as_learned_ones():
    assert SinusoidalPositions(512, 64)(512).square().mean().sqrt().item() == pytest.approx(
        0.02, rel=1e-4
    )


def test_rotated_scores_depend_on_the_distance_alone():
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 8, generator=generator, dtype=torch.float64)
    scores_LL = rotate(q.expand(20, 8)) @ rotate(k.expand(20, 8)).T
    for distance in range(-19, 20):
        diagonal = scores_LL.diagonal(distance)
        torch.testing.assert_close(
            diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-12, atol=1e-12
        )
    assert scores_LL[0].unique().numel() == 20
    torch.testing.assert_close(scores_LL.diagonal(), (q @ k).expand(20))


def test_rotation_equals_a_complex_rotation():
    x_BLD = torch.randn(3, 11, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(rotate(x_BLD), complex_rotation(x_BLD), rtol=1e-12, atol=1e-12)


# ---- totals, initial values, first loss ----

TOTALS = [
    ({"mixer": "attention", "width": 64, "block": "mixer+identity"}, 562_304),
    ({"mixer": "mamba", "width": 64}, 589_824),
    ({"mixer": "attention", "width": 128, "block": "mixer+identity"}, 1_190_144),
    ({"mixer": "mamba", "width": 128}, 1_282_048),
    ({"mixer": "attention", "width": 64, "depth": 1}, 578_496),
    ({"mixer": "attention", "width": 64, "depth": 2}, 628_480),
]


@pytest.mark.parametrize(("table", "total"), TOTALS)
def test_parameter_totals_at_vocabulary_8192_and_length_64(table, total):
    with torch.device("meta"):
        model = Model(ModelSpec.parse(table), 3, 8192, 64)
    assert model.parameters_per_member() == total


def expected_std(name: str) -> float | tuple[float, float]:
    """Of a two-layer model of width 64: a standard deviation, or (value, 0) for a constant."""
    uniform = 1 / math.sqrt(3)
    stds = {
        "embedding.weight": 0.02,
        "positions.weight": 0.02,
        "qkv.weight": 0.02,
        "up.weight": 0.02,
        "mixer.out.weight attention": 0.02 / 2,
        "down.weight": 0.02 / 2,
        "into.weight": uniform / 8,
        "conv.weight": uniform / 2,
        "conv.bias": uniform / 2,
        "select.weight": uniform / math.sqrt(128),
        "delta.weight": uniform / 2,
        "mixer.out.weight mamba": uniform / math.sqrt(128) / math.sqrt(2),
    }
    constants = {
        "qkv.bias": 0.0,
        "out.bias": 0.0,
        "up.bias": 0.0,
        "down.bias": 0.0,
        "skip_PE": 1.0,
        "norm.weight": 1.0,
        "norm.bias": 0.0,
        "norm_mixer.weight": 1.0,
        "norm_mixer.bias": 0.0,
        "norm_channel.weight": 1.0,
        "norm_channel.bias": 0.0,
    }
    for key, std in stds.items():
        if name.endswith(key):
            return std
    return next(
        (value, 0.0) for key, value in constants.items() if name.split(" ")[0].endswith(key)
    )


@pytest.mark.parametrize("mixer", ["attention", "mamba"])
def test_every_tensor_starts_with_its_distribution(mixer):
    model = model_of({"mixer": mixer}, population=4, vocabulary=512, length=64)
    for name, parameter in model.named_parameters():
        if name.endswith(("a_log_PEN", "delta.bias")):
            continue  # below
        expected = expected_std(f"{name} {mixer}" if name.endswith("mixer.out.weight") else name)
        if isinstance(expected, tuple):
            assert (parameter == expected[0]).all(), name
        else:
            # Four standard errors of a standard deviation, over all members together
            assert parameter.std().item() == pytest.approx(
                expected, rel=4 / math.sqrt(2 * parameter.numel())
            ), name
            assert abs(parameter.mean().item()) < 4 * expected / math.sqrt(parameter.numel()), name


def test_mamba_starts_with_a_long_memory():
    """Zoology's old initialisation made every step 0.69, a memory of one token: this is the test
    that would have caught it.
    """
    model = model_of({"mixer": "mamba", "width": 256}, population=4, vocabulary=512)
    steps = torch.cat([F.softplus(block.mixer.delta.bias).flatten() for block in model.blocks])
    quantiles = steps.quantile(torch.tensor([0.05, 0.5, 0.95])).tolist()
    assert steps.min() >= 1e-3 * (1 - 1e-4)
    assert steps.max() <= 1e-1 * (1 + 1e-4)
    # .0013, .01, .079
    assert quantiles == pytest.approx([1e-3 * 100**share for share in (0.05, 0.5, 0.95)], rel=0.1)
    for block in model.blocks:
        rates = block.mixer.a_log_PEN.exp()
        torch.testing.assert_close(rates, torch.arange(1.0, 17).expand_as(rates))


GUESSING = [{"mixer": name} for name in MIXERS] + [
    {"mixer": "attention", "positions": "sinusoidal"}
]


@pytest.mark.parametrize("table", GUESSING, ids=lambda table: "-".join(table.values()))
def test_the_first_loss_is_that_of_a_guess(table):
    model = model_of(table, vocabulary=8192, length=64)
    # fewer would scatter by more than is allowed below
    batch = some_batch(labels=32, rows=64, length=64, vocabulary=8192)
    with torch.no_grad():
        loss_P = model.loss(batch) / (batch.labels_BK != IGNORE).sum()
    # Logits of standard deviation 0.02 * sqrt(64) add half their variance to the loss.
    assert loss_P.tolist() == pytest.approx([math.log(8192) + 0.16**2 / 2] * P, abs=0.02)


@pytest.mark.parametrize("table", VARIANTS, ids=[str(table) for table in VARIANTS])
def test_every_parameter_of_every_member_learns(table):
    model = model_of({"width": 8, **table})
    model.loss(some_batch(rows=8)).sum().backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad.flatten(1).abs().amax(1) > 0).all(), name
        assert parameter.grad.isfinite().all(), name


def test_the_state_of_a_model_is_that_of_one_layer():
    assert model_of({"mixer": "attention", "width": 8, "depth": 3}).state_size() == 2 * 8 * L
