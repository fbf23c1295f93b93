"""Options of softmax attention: convolutions, positions, dropout, and what is refused."""

import math

import pytest
import torch
from test_attention import DOUBLE, VARIANTS, B, D, L, P, attention
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.errors import SpecError
from recollect.mixers.attention.mixer import Attention
from recollect.mixers.base import Site
from recollect.mixers.build import build_mixer
from recollect.mixers.registry import MIXERS
from recollect.model.layers import Noise, initialise, parameter_kinds
from recollect.spec.model import ModelSpec

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
    """Rows of equal tokens: the weights of a query and a key are the product
    of their distance alone.
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


@pytest.mark.parametrize("positions", ["none", "rope", "relative"])
def test_normalised_queries_and_keys_have_no_size(positions):
    """Scores are bounded by the weights of the norms, whatever the projection has become."""
    mixer = spread(attention(positions, heads=2, qk_norm=True))
    x_PBLD = inputs(P, B, L, D, dtype=DOUBLE)
    before = mixer.effective_attention(x_PBLD).weights_PBHLL
    with torch.no_grad():
        for parameter in mixer.qkv.parameters():
            parameter[..., : 2 * D] *= 1000
    after = mixer.effective_attention(x_PBLD).weights_PBHLL
    torch.testing.assert_close(after, before, rtol=1e-3, atol=1e-3)


def test_norms_of_queries_and_keys_start_at_one_and_draw_nothing():
    plain, normed = attention(heads=2), attention(heads=2, qk_norm=True)
    for name, value in plain.state_dict().items():
        assert torch.equal(normed.state_dict()[name], value), name
    more = {name: value for name, value in normed.named_parameters() if name.startswith("norms.")}
    assert {name: tuple(value.shape) for name, value in more.items()} == {
        "norms.q.weight": (P, D // 2),
        "norms.k.weight": (P, D // 2),
    }
    assert all((value == 1).all() for value in more.values())
    kinds = parameter_kinds(normed)
    assert {kinds[name] for name in more} == {"norm"}


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
        "width = 64: rope turns pairs of channels, but rope_share = 1.0 of a head's 1 is 1; make "
        "it an even number",
    ),
    (
        {"heads": 4, "rope_share": 0.2},
        "rope",
        "width = 64: rope turns pairs of channels, but rope_share = 0.2 of a head's 16 is 3; make "
        "it an even number",
    ),
    (
        {"heads": 4, "rope_share": 0.01},
        "rope",
        "width = 64: rope turns pairs of channels, but rope_share = 0.01 of a head's 16 is 0; "
        "make it an even number",
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
