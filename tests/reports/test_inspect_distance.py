"""Mass and gradients against distance, on matrices and models whose answer is known."""

import math

import pytest
import torch

from recollect.mixers.base import EffectiveAttention
from recollect.reports.inspect import distance
from recollect.reports.inspect.attention_maps import layer_maps, measure_maps
from recollect.reports.inspect.scores import find_targets
from recollect.reports.inspect.weight_history import initial_weights, model_with_weights
from recollect.tasks.base import IGNORE, Batch
from recollect.tasks.build import build_task

LENGTH = 8
DISTANCE = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)


def decaying(gamma: float) -> torch.Tensor:
    """gamma ** distance below the diagonal, alternating in sign."""
    signs = 1 - 2 * (DISTANCE % 2)
    return (gamma ** DISTANCE.clamp(min=0) * signs).tril()


def test_mass_of_a_decay_is_that_decay():
    maps = measure_maps(
        EffectiveAttention(
            decaying(0.5)[None, None, None], torch.zeros(1, 1, 1, LENGTH, 4), lambda x: x
        )
    )
    assert (maps.channels, maps.probabilities) == (0, False)
    mass = distance.mass_by_distance(maps.size_BHLL, maps.probabilities)
    assert mass.tolist() == [[0.5**distance for distance in range(LENGTH)]]
    assert distance.kept_per_token(mass[0].tolist()) == pytest.approx(0.5)


def test_channels_are_averaged_and_heads_are_not():
    weights = torch.stack([decaying(1.0), decaying(0.5)])[None, None]
    per_channel = measure_maps(
        EffectiveAttention(weights, torch.zeros(1, 1, 2, LENGTH, 1), lambda x: x)
    )
    assert (per_channel.heads, per_channel.channels) == (1, 2)
    assert distance.mass_by_distance(per_channel.size_BHLL, False)[0, 1] == 0.75
    per_head = measure_maps(
        EffectiveAttention(weights, torch.zeros(1, 1, 2, LENGTH, 3), lambda x: x)
    )
    assert (per_head.heads, per_head.channels) == (2, 0)
    assert distance.mass_by_distance(per_head.size_BHLL, False)[:, 1].tolist() == [1, 0.5]


def test_equal_attention_has_equal_mass_at_every_distance():
    equal = torch.ones(LENGTH, LENGTH).tril()
    maps = measure_maps(
        EffectiveAttention(
            (equal / equal.sum(1, keepdim=True))[None, None, None],
            torch.zeros(1, 1, 1, LENGTH, 4),
            id,
        )
    )
    assert maps.probabilities
    mass = distance.mass_by_distance(maps.size_BHLL, maps.probabilities)[0].tolist()
    assert mass == pytest.approx([1.0] * LENGTH)
    assert distance.kept_per_token(mass) == pytest.approx(1.0)


def test_a_decay_that_cannot_be_told():
    assert math.isnan(distance.kept_per_token([1.0, 0.5]))
    assert math.isnan(distance.kept_per_token([1.0, 0.0, 0.0, 0.0]))
    # nothing at some distances: the others tell
    assert distance.kept_per_token([1.0, 0.0, 0.25, 0.125, 0.0625, 0, 0, 0, 0]) == pytest.approx(
        0.5
    )


def test_gradients_of_a_linear_recurrence():
    """loss(q) = sum over j <= q of gamma ** (q - j) w . x_j; its gradient: gamma ** (q - j) |w|."""
    gamma, w = 0.5, torch.tensor([3.0, 4.0])
    x = torch.randn(2, LENGTH, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    where = torch.tensor([[7, 3], [5, 4]])
    kernel = torch.where(DISTANCE >= 0, gamma ** DISTANCE.clamp(min=0), 0.0)
    losses = (kernel @ (x @ w)[..., None])[..., 0].gather(1, where)
    norms = distance.gradient_norms(losses, x)
    assert norms.shape == (2, 2, LENGTH)
    assert norms[0, 1].tolist() == [5 * gamma**3, 5 * gamma**2, 5 * gamma, 5, 0, 0, 0, 0]
    valid = torch.tensor([[True, True], [True, False]])
    assert distance.by_distance(norms, where, valid).tolist() == pytest.approx(
        [5 * gamma**distance for distance in range(LENGTH)]
    )
    short = distance.by_distance(norms, where, torch.tensor([[False, True], [False, False]]))
    assert short[:4].tolist() == [5, 2.5, 1.25, 0.625]
    assert short[4:].isnan().all(), "no question looks back so far"


def test_gradients_at_the_asked_pair():
    tokens = torch.tensor([[1, 2, 3, 4, 3, 0]])  # 3 -> 4 is asked at position 4
    batch = Batch(
        tokens, torch.tensor([[4, 5]]), torch.tensor([[4, IGNORE]]), torch.tensor([[True, False]])
    )
    norms = torch.tensor([[[1.0, 2, 4, 8, 16, 32]] * 2])
    found = distance.at_targets(
        norms, batch.where_BK, batch.labels_BK != IGNORE, find_targets(batch, 2)
    )
    assert found == {"question": 16, "key": 4, "value": 8, "elsewhere": 1.5}


# -- real models


def test_losses_from_the_embedding_are_the_models_own(make_run):
    run = make_run({"model.dropout": 0.1})
    model = model_with_weights(run, initial_weights(run), torch.device("cpu"))
    batch = build_task(run.task, 0, 8, "cpu").batch("test", 0)
    losses, x = distance.losses_from_embedding(model, batch)
    assert float(losses.detach().sum()) == pytest.approx(
        float(model.loss(batch)[0].detach()), rel=1e-5
    )
    norms = distance.gradient_norms(losses, x)
    later = torch.arange(16) > batch.where_BK[..., None]
    assert (norms[later] == 0).all(), "nothing comes from the future"
    assert (norms.amax(-1) > 0).all()
    assert len(model.dropout._forward_hooks) == 0


def test_gradients_are_those_of_finite_differences(make_run):
    run = make_run({"model.depth": 1, "model.mixer.name": "delta_net"})
    model = model_with_weights(run, initial_weights(run), torch.device("cpu"))
    batch = build_task(run.task, 0, 2, "cpu").batch("test", 0)
    losses, x = distance.losses_from_embedding(model, batch)
    norms = distance.gradient_norms(losses[:, :1], x)
    (gradient,) = torch.autograd.grad(losses[0, 0], x)
    assert norms[0, 0].tolist() == pytest.approx(gradient[0].norm(dim=-1).tolist(), rel=1e-5)


@pytest.mark.parametrize(
    ("mixer", "channels", "probabilities"),
    [
        ("attention", 0, True),
        ("mamba", 32, False),
        ("delta_net", 0, False),
        ("rwkv4", 16, True),
        ("hyena", 16, False),
    ],
)
def test_maps_of_every_kind_of_mixer(make_run, mixer, channels, probabilities):
    run = make_run({"model.mixer.name": mixer})
    model = model_with_weights(run, initial_weights(run), torch.device("cpu"))
    tokens = build_task(run.task, 0, 6, "cpu").batch("test", 0).tokens_BL
    for maps in layer_maps(model, tokens):
        assert (maps.channels, maps.probabilities) == (channels, probabilities)
        assert maps.size_BHLL.shape == (6, 1, 16, 16)
        assert (maps.size_BHLL.triu(1) == 0).all()
    assert all(len(block.mixer._forward_pre_hooks) == 0 for block in model.layers)


def test_maps_are_the_same_row_by_row(make_run, monkeypatch):
    run = make_run({"model.mixer.name": "mamba"})
    model = model_with_weights(run, initial_weights(run), torch.device("cpu"))
    tokens = build_task(run.task, 0, 6, "cpu").batch("test", 0).tokens_BL
    whole = layer_maps(model, tokens)
    monkeypatch.setattr("recollect.reports.inspect.attention_maps.AT_ONCE", 1)
    assert all(
        torch.allclose(a.size_BHLL, b.size_BHLL, atol=1e-7)
        for a, b in zip(whole, layer_maps(model, tokens), strict=True)
    )
    monkeypatch.setattr("recollect.reports.inspect.attention_maps.HELD", 1)
    assert [maps.size_BHLL.shape[0] for maps in layer_maps(model, tokens)] == [4, 4], (
        "as many rows as fit, but a few"
    )


def test_a_mixer_without_effective_attention_has_no_maps(make_run):
    run = make_run({"model.mixer": ["lstm", "attention"]})
    model = model_with_weights(run, initial_weights(run), torch.device("cpu"))
    tokens = build_task(run.task, 0, 6, "cpu").batch("test", 0).tokens_BL
    first, second = layer_maps(model, tokens)
    assert first is None
    assert second is not None
    run = make_run({"model.mixer.name": "gru", "model.depth": 1})
    assert layer_maps(
        model_with_weights(run, initial_weights(run), torch.device("cpu")), tokens
    ) == [None]


def test_weights_as_drawn_are_those_a_population_starts_with(make_run, make_population):
    run = make_run({"model.mixer.name": "mamba"}, seed=3)
    drawn, model = (
        initial_weights(run),
        make_population([make_run(seed=9, changes={"model.mixer.name": "mamba"}), run]).model,
    )
    assert all(torch.equal(value[1], drawn[name]) for name, value in model.state_dict().items())
