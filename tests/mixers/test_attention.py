"""Softmax attention beyond the contract: its equations written out, its numbers at the start."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.mixers.attention.mixer import Attention
from recollect.mixers.build import build_mixer
from recollect.model.layers import Noise, parameter_kinds
from recollect.ops.softmax_attention import alibi_slopes

P, B, L, D = 2, 2, 11, 12
DOUBLE = torch.float64


def attention(
    positions: str = "none", width: int = D, length: int = L, **options: object
) -> Attention:
    mixer = Case("attention", options, positions).build(
        population=P, width=width, length=length, dtype=DOUBLE
    )
    assert isinstance(mixer, Attention)
    return mixer


def weights_of(mixer: Attention, p: int) -> dict[str, Tensor]:
    return {name: value[p] for name, value in mixer.state_dict().items()}


# ---- the equations, one number at a time ----


def convolved_by_hand(x_LD: Tensor, weight_KD: Tensor, bias_D: Tensor, padding: str) -> Tensor:
    taps = len(weight_KD)
    behind = taps - 1 if padding == "causal" else (taps - 1) // 2
    y_LD = bias_D.repeat(len(x_LD), 1)
    for t in range(len(x_LD)):
        for k in range(taps):
            if 0 <= t - behind + k < len(x_LD):
                y_LD[t] += weight_KD[k] * x_LD[t - behind + k]
    return y_LD


def turned_by_hand(x_LD: Tensor, channels: int) -> Tensor:
    y_LD, half = x_LD.clone(), channels // 2
    for t in range(len(x_LD)):
        for i in range(half):
            angle = t * 10_000 ** (-2 * i / channels)
            one, other = x_LD[t, i], x_LD[t, i + half]
            y_LD[t, i] = one * math.cos(angle) - other * math.sin(angle)
            y_LD[t, i + half] = one * math.sin(angle) + other * math.cos(angle)
    return y_LD


def branch_by_hand(
    mixer: Attention, weights: dict[str, Tensor], branch: str, x_LD: Tensor
) -> Tensor:
    spec, third = mixer.spec, slice("qkv".index(branch) * D, ("qkv".index(branch) + 1) * D)
    before, after = (
        spec.conv != "none" and branch in spec.conv and spec.conv_place == place
        for place in ("before", "after")
    )
    conv = [weights.get(f"convs.{branch}.{part}") for part in ("weight", "bias")]
    if before:
        x_LD = convolved_by_hand(x_LD, *conv, spec.conv_padding)
    if "qkv.weight" in weights:
        y_LD = x_LD @ weights["qkv.weight"][:, third] + weights["qkv.bias"][third]
    else:
        y_LD = (
            x_LD @ weights[f"projections.{branch}.weight"] + weights[f"projections.{branch}.bias"]
        )
    return convolved_by_hand(y_LD, *conv, spec.conv_padding) if after else y_LD


def by_hand(mixer: Attention, p: int, x_LD: Tensor) -> Tensor:
    """One member, one row."""
    weights, spec, positions = weights_of(mixer, p), mixer.spec, mixer.site.positions
    q, k, v = (branch_by_hand(mixer, weights, branch, x_LD) for branch in "qkv")
    channels, length = D // spec.heads, len(x_LD)
    mixed_LD = torch.zeros_like(x_LD)
    for head in range(spec.heads):
        part = slice(head * channels, (head + 1) * channels)
        q_h, k_h = q[:, part], k[:, part]
        if spec.qk_norm:
            q_h, k_h = (
                x * weights[f"norms.{name}.weight"] / (x.square().mean(-1)[:, None] + 1e-6).sqrt()
                for name, x in (("q", q_h), ("k", k_h))
            )
        if positions == "rope":
            turned = int(spec.rope_share * channels)
            q_h, k_h = turned_by_hand(q_h, turned), turned_by_hand(k_h, turned)
        for i in range(length):
            scores = [float(q_h[i] @ k_h[j]) / math.sqrt(channels) for j in range(i + 1)]
            if positions == "relative":
                scores = [
                    score + float(weights["relative_PHL"][head, i - j])
                    for j, score in enumerate(scores)
                ]
            if positions == "alibi":
                scores = [
                    score - alibi_slopes(spec.heads)[head] * (i - j)
                    for j, score in enumerate(scores)
                ]
            exponentials = [math.exp(score - max(scores)) for score in scores]
            for j, exponential in enumerate(exponentials):
                mixed_LD[i, part] += exponential / sum(exponentials) * v[j, part]
    return mixed_LD @ weights["out.weight"] + weights["out.bias"]


VARIANTS = [
    ("none", {"heads": 3}),
    ("relative", {"heads": 2}),
    ("alibi", {"heads": 2}),
    ("alibi", {"heads": 3}),
    ("rope", {"heads": 1}),
    ("rope", {"heads": 2, "rope_share": 0.4}),
    ("none", {"conv": "qkv"}),
    ("none", {"conv": "qkv", "conv_place": "after", "heads": 2}),
    ("none", {"conv": "qkv", "conv_padding": "same"}),
    ("none", {"conv": "qkv", "conv_place": "after", "conv_padding": "same", "conv_kernel": 5}),
    ("rope", {"conv": "qk", "conv_place": "after", "conv_kernel": 3}),
    ("relative", {"conv": "k", "conv_kernel": 2}),
    ("alibi", {"conv": "v", "conv_kernel": 16}),
    ("none", {"conv": "q", "conv_padding": "same", "conv_kernel": 64}),
    ("none", {"qk_norm": True, "heads": 3}),
    ("rope", {"qk_norm": True, "heads": 2}),
    ("relative", {"qk_norm": True, "conv": "qk"}),
]


@pytest.mark.parametrize(("positions", "options"), VARIANTS, ids=str)
def test_it_is_the_equations_written_out(positions, options):
    mixer, x_PBLD = spread(attention(positions, **options)), inputs(P, B, L, D, dtype=DOUBLE)
    wanted = torch.stack(
        [torch.stack([by_hand(mixer, p, x_LD) for x_LD in x_PBLD[p]]) for p in range(P)]
    )
    torch.testing.assert_close(mixer(x_PBLD), wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("positions", ["none", "rope", "alibi"])
def test_the_fused_kernel_and_the_written_out_softmax_agree(positions):
    """Dropout takes the second; of a share this small nothing is dropped."""
    fused = spread(attention(positions, heads=2))
    site = replace(fused.site, dropout=1e-14, noise=Noise(P))
    explicit = build_mixer(fused.spec, site).to(DOUBLE)
    explicit.load_state_dict(fused.state_dict())
    x_PBLD = inputs(P, B, L, D, dtype=DOUBLE)
    torch.testing.assert_close(fused(x_PBLD), explicit(x_PBLD), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("heads", "exponents"),
    [
        (1, [8]),
        (2, [4, 8]),
        (4, [2, 4, 6, 8]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (3, [4, 8, 2]),
        (6, [2, 4, 6, 8, 1, 3]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)
def test_alibi_slopes_are_those_of_the_paper(heads, exponents):
    assert alibi_slopes(heads) == [2**-exponent for exponent in exponents]


def test_a_shift_of_all_keys_changes_nothing_unless_they_are_turned():
    """Why the bias of the keys, and of their convolution,
    has no gradient but rounding under every position but rope.
    """
    for positions in ("none", "relative", "alibi", "rope"):
        mixer, x_PBLD = (
            spread(attention(positions, conv="k", conv_place="after")),
            inputs(P, B, L, D, dtype=DOUBLE),
        )
        before = mixer(x_PBLD)
        with torch.no_grad():
            mixer.convs["k"].bias += 1
        assert torch.allclose(mixer(x_PBLD), before, rtol=1e-12, atol=1e-12) == (
            positions != "rope"
        )


# ---- the numbers at the start ----


@pytest.mark.parametrize("depth", [1, 2, 8])
@pytest.mark.parametrize("conv", ["none", "qkv"])
def test_linear_layers_start_as_zoologys(depth, conv):
    mixer = Case("attention", {"conv": conv}).build(width=128, depth=depth)
    for name, parameter in mixer.named_parameters():
        if name.startswith("convs"):
            continue
        if name.endswith("bias"):
            assert not parameter.any(), name
            continue
        std = 0.02 / math.sqrt(2 * depth) if name == "out.weight" else 0.02
        assert parameter.std().item() == pytest.approx(
            std, rel=4 / math.sqrt(2 * parameter.numel())
        ), name
        assert abs(parameter.mean().item()) < 4 * std / math.sqrt(parameter.numel()), name


@pytest.mark.parametrize("taps", [3, 4])
def test_convolutions_start_as_conv1d(taps):
    mixer, bound = (
        Case("attention", {"conv": "qkv", "conv_kernel": taps}).build(width=256),
        taps**-0.5,
    )
    for conv in mixer.convs.values():
        for parameter in (conv.weight, conv.bias):
            assert parameter.abs().max() <= bound
            assert parameter.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)
    assert not torch.equal(mixer.convs["q"].weight, mixer.convs["k"].weight)


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("taps", [3, 4])
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize(("conv", "branches"), [("none", 0), ("q", 1), ("qk", 2), ("qkv", 3)])
def test_parameters_and_state_follow_the_formulas(width, taps, place, conv, branches):
    length = 64
    mixer = attention(width=width, length=length, conv=conv, conv_kernel=taps, conv_place=place)
    parameters = sum(parameter[0].numel() for parameter in mixer.parameters())
    assert parameters == 4 * width**2 + 4 * width + branches * (width * taps + width)
    assert mixer.state_size() == 2 * width * length + branches * (taps - 1) * width


@pytest.mark.parametrize(
    ("positions", "more"), [("none", 0), ("rope", 0), ("alibi", 0), ("relative", 4 * L)]
)
def test_only_relative_positions_have_parameters_and_they_start_at_zero(positions, more):
    mixer = attention(positions, heads=4)
    assert sum(parameter[0].numel() for parameter in mixer.parameters()) == 4 * D**2 + 4 * D + more
    if more:
        assert not mixer.relative_PHL.any()


def test_operations_are_counted_over_the_positions_seen():
    scores_and_values = 2 * D * sum(range(1, L + 1)) / L
    assert attention().operations_per_token() == 4 * D**2 + scores_and_values
    assert (
        attention(conv="qk", conv_kernel=3).operations_per_token()
        == 4 * D**2 + scores_and_values + 2 * 3 * D
    )


def test_kinds_of_parameters():
    kinds = parameter_kinds(attention("relative", conv="k"))
    assert {name for name, kind in kinds.items() if kind == "bias"} == {
        "relative_PHL",
        "convs.k.bias",
        "projections.q.bias",
        "projections.k.bias",
        "projections.v.bias",
        "out.bias",
    }
    assert set(kinds.values()) == {"weight", "bias"}
