"""Softmax attention beyond the contract: the equations written out, its numbers at the start, and
what each option does.
"""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.errors import SpecError
from recollect.mixers.attention.mixer import Attention
from recollect.mixers.base import Site
from recollect.mixers.build import build_mixer
from recollect.mixers.registry import MIXERS
from recollect.model.layers import Noise, initialise, parameter_kinds
from recollect.ops.softmax_attention import alibi_slopes
from recollect.spec.model import ModelSpec

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
    """A site with dropout takes the second; at evaluation nothing is dropped."""
    fused = spread(attention(positions, heads=2))
    explicit = (
        build_mixer(fused.spec, replace(fused.site, dropout=0.3, noise=Noise(P))).to(DOUBLE).eval()
    )
    explicit.load_state_dict(fused.state_dict())
    x_PBLD = inputs(P, B, L, D, dtype=DOUBLE)
    torch.testing.assert_close(fused(x_PBLD), explicit(x_PBLD), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("heads", "exponents"),
    [
        (1, [8]), (2, [4, 8]), (4, [2, 4, 6, 8]), (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (3, [4, 8, 2]), (6, [2, 4, 6, 8, 1, 3]), (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)  # fmt: skip
def test_alibi_slopes_are_those_of_the_paper(heads, exponents):
    assert alibi_slopes(heads) == [2**-exponent for exponent in exponents]


def test_a_shift_of_all_keys_changes_nothing_unless_they_are_turned():
    """Why the bias of the keys, and of their convolution, has no gradient but rounding under every
    position but rope.
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
        "relative_PHL", "convs.k.bias", "projections.q.bias", "projections.k.bias", "projections.v.bias", "out.bias",
    }  # fmt: skip
    assert set(kinds.values()) == {"weight", "bias"}


# ---- what the options do ----


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("conv", ["q", "k", "v", "qk", "qkv"])
def test_a_convolution_changes_its_branches_alone(conv, place):
    """Values depend on v alone, the matrix on q and k."""
    plain, mixer = attention(), spread(attention(conv=conv, conv_place=place))
    for branch, (weight, bias) in enumerate(
        zip(mixer_thirds(mixer, "weight"), mixer_thirds(mixer, "bias"), strict=True)
    ):
        with torch.no_grad():
            plain.qkv.weight[..., branch * D : (branch + 1) * D] = weight
            plain.qkv.bias[..., branch * D : (branch + 1) * D] = bias
    x_PBLD = inputs(P, B, L, D, dtype=DOUBLE)
    one, other = mixer.effective_attention(x_PBLD), plain.effective_attention(x_PBLD)
    assert torch.allclose(one.values_PBHLD, other.values_PBHLD) == ("v" not in conv)
    assert torch.allclose(one.weights_PBHLL, other.weights_PBHLL) == (not set("qk") & set(conv))


def mixer_thirds(mixer: Attention, part: str) -> list[Tensor]:
    if mixer.qkv is not None:
        return list(getattr(mixer.qkv, part).chunk(3, -1))
    return [getattr(mixer.projections[branch], part) for branch in "qkv"]


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize(("taps", "ahead"), [(2, 1), (3, 1), (4, 2), (5, 2)])
@pytest.mark.parametrize("conv", ["q", "k", "v"])
def test_same_padding_looks_just_as_far_ahead_as_pytorchs(place, taps, ahead, conv):
    mixer = spread(attention(conv=conv, conv_padding="same", conv_kernel=taps, conv_place=place))
    x_PBLD = inputs(P, B, L, D, dtype=DOUBLE)
    other_PBLD = x_PBLD.clone()
    other_PBLD[:, :, 7] += 1
    changed_L = (mixer(x_PBLD) != mixer(other_PBLD)).any(-1).all(1).all(0)
    assert changed_L.int().argmax() == 7 - ahead
    assert not mixer.causal
    assert mixer.state_size() is None
    with pytest.raises(NotImplementedError, match="Attention has no step-by-step form"):
        mixer.start(B)


def test_padding_without_a_convolution_is_no_look_ahead():
    assert attention(conv_padding="same").causal


@pytest.mark.parametrize("positions", ["rope", "alibi", "relative"])
def test_positions_are_distances(positions):
    """Rows of equal tokens: the weights of a query and a key are the product of their distance
    alone.
    """
    mixer = spread(attention(positions, heads=2))
    effective = mixer.effective_attention(inputs(P, B, 1, D, dtype=DOUBLE).expand(P, B, L, D))
    logs = effective.weights_PBHLL.log()
    scores = logs - logs.diagonal(dim1=-2, dim2=-1)[..., None]
    for distance in range(L - 1):
        diagonal = scores.diagonal(-distance, dim1=-2, dim2=-1)
        torch.testing.assert_close(
            diagonal, diagonal[..., :1].expand_as(diagonal), rtol=1e-9, atol=1e-9
        )
    assert (scores[..., L - 1, 0] != 0).all()


def test_only_the_share_of_channels_is_turned():
    """With the turned channels of the queries at zero, rope changes nothing."""
    mixer, x_PBLD = (
        spread(attention("rope", heads=2, rope_share=0.4)),
        inputs(P, B, L, D, dtype=DOUBLE),
    )
    plain = attention(heads=2)
    with torch.no_grad():
        for parameter in mixer.qkv.parameters():
            parameter[..., [0, 1, 6, 7]] = 0  # the first two of six channels in both heads
    plain.load_state_dict(mixer.state_dict())
    torch.testing.assert_close(mixer(x_PBLD), plain(x_PBLD), rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        mixer.qkv.bias[..., 0] = 1
    plain.load_state_dict(mixer.state_dict())
    assert not torch.allclose(mixer(x_PBLD), plain(x_PBLD))


# ---- dropout ----

SEEDS = torch.tensor([5, 6])


def dropping(
    layer: int = 0, share: float = 0.25, population: int = P, seeds: Tensor = SEEDS, step: int = 3
) -> Attention:
    noise = Noise(population)
    noise.set(seeds, step)
    spec = MIXERS["attention"].model_validate({"name": "attention", "heads": 2})
    mixer = build_mixer(
        spec, Site(population, D, 64, 2, "none", layer=layer, dropout=share, noise=noise)
    )
    assert isinstance(mixer, Attention)
    initialise(mixer, seeds.tolist())
    return mixer.train()


def test_dropout_zeroes_weights_of_the_softmax_and_scales_up_the_rest():
    mixer, x_PBLD = dropping(), inputs(P, 4, 64, D)
    effective = mixer.effective_attention(x_PBLD)
    mask = mixer.dropout(torch.ones_like(effective.weights_PBHLL))
    assert mask.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert (mask == 0).float().mean().item() == pytest.approx(
        0.25, abs=4 * math.sqrt(0.25 * 0.75 / mask.numel())
    )
    wanted = effective.finish((effective.weights_PBHLL * mask) @ effective.values_PBHLD)
    torch.testing.assert_close(mixer(x_PBLD), wanted)
    assert not torch.allclose(wanted, effective.output())
    torch.testing.assert_close(mixer.eval()(x_PBLD), effective.output())


def test_dropout_differs_between_members_layers_and_steps_and_not_with_company():
    x_PBLD = inputs(1, 3, 64, D).repeat(2, 1, 1, 1)
    mask = dropping().dropout(torch.ones(P, 3, 2, 64, 64))
    assert not torch.equal(mask[0], mask[1])
    assert not torch.equal(mask, dropping(layer=1).dropout(torch.ones(P, 3, 2, 64, 64)))
    assert not torch.equal(mask, dropping(step=4).dropout(torch.ones(P, 3, 2, 64, 64)))
    alone = dropping(population=1, seeds=SEEDS[1:])
    torch.testing.assert_close(alone(x_PBLD[:1])[0], dropping()(x_PBLD)[1])
    fewer_rows = dropping()(x_PBLD[:, :2])
    torch.testing.assert_close(fewer_rows, dropping()(x_PBLD)[:, :2])


# ---- refusals, extremes ----

REFUSALS = [
    ({"heads": 5}, "learned", "mixer.heads = 5: must divide width = 64; for example heads = 1"),
    (
        {"heads": 64},
        "rope",
        "width = 64: rope turns pairs of channels, but rope_share = "
        "1.0 of a "
        "head's 1 is 1; make it an even number",
    ),
    (
        {"heads": 4, "rope_share": 0.2},
        "rope",
        "width = 64: rope turns pairs of channels, but rope_share = "
        "0.2 of a "
        "head's 16 is 3; make it an even number",
    ),
    (
        {"heads": 4, "rope_share": 0.01},
        "rope",
        "width = 64: rope turns pairs of channels, but rope_share = "
        "0.01 of a "
        "head's 16 is 0; make it an even number",
    ),
    ({"rope_share": 0.0}, "rope", "mixer.rope_share = 0.0: must be greater than 0"),
    (
        {"conv": "kv"},
        "none",
        "mixer.conv = 'kv': must be one of 'none', 'q', 'k', 'v', 'qk' or 'qkv'",
    ),
    ({"conv_kernel": 1}, "none", "mixer.conv_kernel = 1: must be at least 2"),
    (
        {"conv_place": "middle"},
        "none",
        "mixer.conv_place = 'middle': must be one of 'before' or 'after'",
    ),
]


@pytest.mark.parametrize(
    ("options", "positions", "message"), REFUSALS, ids=[str(row[0]) for row in REFUSALS]
)
def test_bad_options_are_refused_with_a_reason(options, positions, message):
    with pytest.raises(SpecError) as caught:
        ModelSpec.parse(
            {"mixer": {"name": "attention", **options}, "positions": positions, "width": 64}
        )
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("positions", ["none", "relative"])
def test_scores_in_the_thousands_stay_finite(positions):
    mixer = spread(Case("attention", {"conv": "qk"}, positions).build(population=P))
    x_PBLD = (1000 * inputs(P, B, 37, D)).requires_grad_()
    y_PBLD = mixer(x_PBLD)
    y_PBLD.mean().backward()
    assert y_PBLD.isfinite().all()
    assert all(tensor.grad.isfinite().all() for tensor in [x_PBLD, *mixer.parameters()])


@pytest.mark.parametrize(("positions", "options"), VARIANTS, ids=str)
def test_it_runs_without_data(positions, options):
    """The planner counts memory on the meta device."""
    with torch.device("meta"):
        spec = MIXERS["attention"].model_validate({"name": "attention", **options})
        mixer = build_mixer(spec, Site(P, D, L, 2, positions))
        assert mixer(torch.empty(P, B, L, D)).shape == (P, B, L, D)
