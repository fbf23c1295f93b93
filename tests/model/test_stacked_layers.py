"""Layers with a population axis:

P members give what P plain torch modules with the same weights give, gradients included.
"""

import math

import pytest
import torch
from torch import Tensor, nn

from recollect.model.layers import (
    Embedding,
    Layer,
    LayerNorm,
    Linear,
    RMSNorm,
    ShortConv,
    fan_in_uniform,
    initialise,
    normal,
    stacked_tensors,
    uniform,
)

P, B, L, D = 3, 2, 7, 5


@pytest.fixture(name="x_PBLD")
def inputs() -> Tensor:
    return torch.randn(
        P, B, L, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    ).requires_grad_()


def ready(layer: Layer) -> Layer:
    """In float64, with every member its own random numbers (also
    where initial values would be ones and zeros).
    """
    initialise(layer, [1, 2, 3])
    layer.double()
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.5 * torch.randn(
                parameter.shape, generator=generator, dtype=torch.float64
            )
    return layer


def assert_like_plain_modules(
    layer: Layer, plain: list[nn.Module], x_PBLD: Tensor, weights: dict[str, callable]
) -> None:
    """Compare outputs, input gradients and parameter gradients;
    `weights` maps our names to views of theirs.
    """
    with torch.no_grad():
        for p, module in enumerate(plain):
            for name, theirs in weights.items():
                theirs(module).copy_(getattr(layer, name)[p])
    y_PBLD = layer(x_PBLD)
    factors = torch.randn(
        y_PBLD.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64
    )
    (y_PBLD * factors).sum().backward()
    for p, module in enumerate(plain):
        x_BLD = x_PBLD[p].detach().clone().requires_grad_()
        y_BLD = run_plain(module, x_BLD)
        (y_BLD * factors[p]).sum().backward()
        torch.testing.assert_close(y_PBLD[p], y_BLD)
        torch.testing.assert_close(x_PBLD.grad[p], x_BLD.grad)
        for name, theirs in weights.items():
            torch.testing.assert_close(getattr(layer, name).grad[p], gradient_view(module, theirs))


def run_plain(module: nn.Module, x_BLD: Tensor) -> Tensor:
    if isinstance(module, nn.Conv1d):  # causal: K - 1 zeros in front, channels in the middle
        return module(
            nn.functional.pad(x_BLD.transpose(1, 2), (module.kernel_size[0] - 1, 0))
        ).transpose(1, 2)
    return module(x_BLD)


def gradient_view(module: nn.Module, view: callable) -> Tensor:
    """The same view of the gradients as of the weights."""
    shadow = nn.Module()
    for name, parameter in module.named_parameters():
        setattr(shadow, name, nn.Parameter(parameter.grad))
    return view(shadow).detach()


def test_linear_is_one_torch_linear_per_member(x_PBLD):
    layer = ready(Linear(P, D, 4, init=normal(1.0)))
    plain = [nn.Linear(D, 4, dtype=torch.float64) for _ in range(P)]
    assert_like_plain_modules(
        layer, plain, x_PBLD, {"weight": lambda m: m.weight.T, "bias": lambda m: m.bias}
    )


def test_linear_without_bias(x_PBLD):
    layer = ready(Linear(P, D, 4, init=normal(1.0), bias=False))
    plain = [nn.Linear(D, 4, bias=False, dtype=torch.float64) for _ in range(P)]
    assert_like_plain_modules(layer, plain, x_PBLD, {"weight": lambda m: m.weight.T})
    assert [name for name, _ in layer.named_parameters()] == ["weight"]


def test_layer_norm_is_one_torch_layer_norm_per_member(x_PBLD):
    plain = [nn.LayerNorm(D, dtype=torch.float64) for _ in range(P)]
    weights = {"weight": lambda m: m.weight, "bias": lambda m: m.bias}
    assert_like_plain_modules(ready(LayerNorm(P, D)), plain, x_PBLD, weights)


def test_rms_norm_is_one_torch_rms_norm_per_member(x_PBLD):
    plain = [nn.RMSNorm(D, eps=1e-5, dtype=torch.float64) for _ in range(P)]
    assert_like_plain_modules(ready(RMSNorm(P, D)), plain, x_PBLD, {"weight": lambda m: m.weight})


@pytest.mark.parametrize("taps", [1, 2, 4, 9])
def test_short_conv_is_one_causal_depthwise_conv_per_member(x_PBLD, taps):
    plain = [nn.Conv1d(D, D, taps, groups=D, dtype=torch.float64) for _ in range(P)]
    weights = {"weight": lambda m: m.weight[:, 0].T, "bias": lambda m: m.bias}
    assert_like_plain_modules(ready(ShortConv(P, D, taps)), plain, x_PBLD, weights)


def test_embedding_and_its_tied_head_are_those_of_torch():
    layer = ready(Embedding(P, 11, D))
    ids_BL = torch.tensor([[0, 10, 3], [3, 3, 7]])
    x_PBLD = layer(ids_BL)
    logits = layer.logits(x_PBLD.flatten(1, 2))
    logits.square().sum().backward()
    for p in range(P):
        plain = nn.Embedding(11, D, dtype=torch.float64)
        plain.weight.data.copy_(layer.weight[p])
        x_BLD = plain(ids_BL)
        expected = x_BLD.flatten(0, 1) @ plain.weight.T
        expected.square().sum().backward()
        torch.testing.assert_close(x_PBLD[p], x_BLD)
        torch.testing.assert_close(logits[p], expected)
        torch.testing.assert_close(layer.weight.grad[p], plain.weight.grad)


@pytest.mark.parametrize("shape", [(P, D), (P, 4, D), (P, B, L, D)])
def test_norms_and_linear_take_any_number_of_axes(shape):
    x = torch.randn(shape)
    for layer in (Linear(P, D, D, init=normal(1.0)), LayerNorm(P, D), RMSNorm(P, D)):
        initialise(layer, [1, 2, 3])
        assert layer(x).shape == shape


# ---- initial values ----


@pytest.mark.parametrize(
    ("init", "std", "bound"),
    [
        (normal(0.02), 0.02, math.inf),
        (uniform(0.5), 0.5 / math.sqrt(3), 0.5),
        (fan_in_uniform(64), 0.125 / math.sqrt(3), 0.125),
        (fan_in_uniform(64, gain=0.5), 0.0625 / math.sqrt(3), 0.0625),
    ],
)
def test_initial_distributions(init, std, bound):
    drawn = init((400, 400), torch.Generator().manual_seed(0))
    assert drawn.std().item() == pytest.approx(std, rel=0.01)
    assert drawn.mean().item() == pytest.approx(0, abs=4 * std / 400)
    assert drawn.abs().max() <= bound


def test_fan_in_is_the_default_of_torch():
    torch.manual_seed(0)
    theirs = nn.Linear(64, 4096).weight
    ours = fan_in_uniform(64)((64, 4096), torch.Generator().manual_seed(0))
    assert ours.std().item() == pytest.approx(theirs.std().item(), rel=0.01)
    assert ours.abs().max().item() == pytest.approx(theirs.abs().max().item(), rel=0.01)


def test_a_member_is_drawn_from_its_own_seed_alone():
    many, few = Linear(3, D, D, init=normal(1.0)), Linear(2, D, D, init=normal(1.0))
    initialise(many, [5, 6, 7])
    initialise(few, [7, 5])
    assert torch.equal(many.weight[[2, 0]], few.weight)
    assert not torch.equal(many.weight[0], many.weight[1])


def test_initialising_leaves_the_global_generator_alone():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    initialise(Linear(2, D, D, init=normal(1.0)), [1, 2])
    assert torch.equal(before, torch.random.get_rng_state())


class Forgetful(Layer):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1, 2))
        self.register_buffer("table", torch.zeros(2), persistent=False)

    def draw(self, generator):
        return {}


def test_a_layer_that_forgets_to_draw_is_caught():
    with pytest.raises(TypeError, match=r"Forgetful\.draw gives \[\], but it stacks \['weight'\]"):
        initialise(Forgetful(), [1])


def test_what_all_members_share_is_not_stacked():
    assert set(stacked_tensors(Forgetful())) == {"weight"}
