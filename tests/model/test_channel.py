"""RWKV's channel mix: against its equations, by its initial values and totals, and inside a model
that reads labels alone.
"""

import math

import pytest
import torch
from torch import Tensor
from zoo import inputs, spread

from recollect.model.channel import ChannelMix
from recollect.model.layers import initialise, parameter_kinds
from recollect.model.model import Model
from recollect.spec.model import ModelSpec
from recollect.tasks.base import IGNORE, Batch

P, B, L, D = 3, 2, 11, 8
TABLE = {
    "mixer": "attention",
    "positions": "learned",
    "width": D,
    "block": "mixer+channel-mix",
    "mlp_ratio": 3,
}


def built(width: int = D, layer: int = 0, layers: int = 2, ratio: int = 4) -> ChannelMix:
    layer = ChannelMix(P, width, ratio * width, layer, layers)
    initialise(layer, [1, 2, 3])
    return layer


def reference(weights: dict[str, Tensor], x_LD: Tensor) -> Tensor:
    """One member and row, position after position."""
    before, outputs = torch.zeros_like(x_LD[0]), []
    for x in x_LD:
        mixed_key = weights["mix_key_PD"] * x + (1 - weights["mix_key_PD"]) * before
        mixed_gate = weights["mix_gate_PD"] * x + (1 - weights["mix_gate_PD"]) * before
        key = torch.clamp(mixed_key @ weights["key.weight"], min=0) ** 2
        outputs.append(
            (key @ weights["value.weight"]) / (1 + torch.exp(-mixed_gate @ weights["gate.weight"]))
        )
        before = x
    return torch.stack(outputs)


def test_it_is_the_equations_in_outputs_and_gradients():
    layer = spread(built().double())
    x_PBLD, factor = (
        inputs(P, B, L, D, dtype=torch.float64).requires_grad_(),
        inputs(P, B, L, D, dtype=torch.float64, seed=2),
    )
    y_PBLD = layer(x_PBLD)
    (y_PBLD * factor).sum().backward()
    for p in range(P):
        weights = {
            name: value[p].detach().clone().requires_grad_()
            for name, value in layer.named_parameters()
        }
        x_BLD = x_PBLD[p].detach().clone().requires_grad_()
        y_BLD = torch.stack([reference(weights, x_LD) for x_LD in x_BLD])
        (y_BLD * factor[p]).sum().backward()
        torch.testing.assert_close(y_PBLD[p], y_BLD, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(x_PBLD.grad[p], x_BLD.grad, rtol=1e-12, atol=1e-12)
        for name, parameter in layer.named_parameters():
            torch.testing.assert_close(
                parameter.grad[p], weights[name].grad, rtol=1e-12, atol=1e-12, msg=name
            )


@pytest.mark.parametrize("changed_from", [1, 5, L - 1])
def test_it_sees_the_present_and_one_token_before(changed_from):
    layer, x_PBLD = built(layer=1), inputs(P, B, L, D)
    other_PBLD = x_PBLD.clone()
    other_PBLD[:, :, changed_from] += 1
    changed = (layer(x_PBLD) != layer(other_PBLD)).any(-1)
    reached = torch.zeros(L, dtype=torch.bool)
    reached[changed_from : changed_from + 2] = True
    assert torch.equal(changed, reached.expand(P, B, L))


def test_the_first_position_mixes_with_zeros():
    layer, x_PBLD = built(), inputs(P, B, 1, D)
    padded = torch.cat((torch.zeros(P, B, 1, D), x_PBLD), 2)
    torch.testing.assert_close(layer(x_PBLD), layer(padded)[:, :, 1:])


def test_members_do_not_see_each_other():
    layer, x_PBLD = built(), inputs(P, B, L, D)
    sound = layer(x_PBLD)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter[1] = math.nan
    broken = layer(x_PBLD)
    assert torch.equal(sound[[0, 2]], broken[[0, 2]])
    assert broken[1].isnan().all()


@pytest.mark.parametrize(("width", "ratio", "squares"), [(64, 4, 9), (128, 4, 9), (16, 3, 7)])
def test_parameters(width, ratio, squares):
    layer = built(width, ratio=ratio)
    assert (
        sum(parameter[0].numel() for parameter in layer.parameters())
        == squares * width**2 + 2 * width
    )
    assert set(parameter_kinds(layer).values()) == {"weight"}


@pytest.mark.parametrize(("layer", "layers"), [(0, 1), (0, 2), (1, 2), (11, 12), (29, 30)])
def test_the_token_shift_starts_by_layer(layer, layers):
    mix = built(64, layer, layers)
    wanted = torch.tensor([(c / 64) ** (1 - layer / layers) for c in range(64)]).expand(P, -1)
    torch.testing.assert_close(mix.mix_key_PD, wanted)
    torch.testing.assert_close(mix.mix_gate_PD, wanted)


def test_linear_layers_start_as_torchs_default():
    mix = built(64)
    for linear, fan_in in ((mix.key, 64), (mix.gate, 64), (mix.value, 256)):
        assert linear.bias is None
        assert linear.weight.abs().max() <= 1 / math.sqrt(fan_in)
        assert linear.weight.std().item() == pytest.approx(1 / math.sqrt(3 * fan_in), rel=0.03)


# ---- in a model ----


def model_of(table: dict, vocabulary: int = 13) -> Model:
    model = Model(ModelSpec.parse(table), P, vocabulary, L)
    initialise(model, [1, 2, 3])
    return model


@pytest.mark.parametrize("depth", [1, 2])
def test_the_block_is_a_channel_mix_of_its_layer(depth):
    model = model_of({**TABLE, "depth": depth})
    for layer, block in enumerate(model.layers):
        assert isinstance(block.channel, ChannelMix)
        assert block.channel.exponent == 1 - layer / depth
        assert block.channel.key.weight.shape == (P, D, 3 * D)
        assert not block.local


def test_a_look_back_is_part_of_the_state():
    for block, extra in (("mixer+channel-mix", D), ("mixer+mlp", 0), ("mixer", 0)):
        model = model_of({**TABLE, "block": block})
        assert model.state_size() == model.layers[0].mixer.state_size() + extra


def logits(model: Model, tokens_BL: Tensor, positions: list[int]) -> Tensor:
    return model(tokens_BL, torch.tensor(positions).expand(len(tokens_BL), -1)).view(
        P, len(tokens_BL), len(positions), -1
    )


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("mixer", ["attention", "rwkv4"])
def test_a_label_is_read_with_the_tokens_up_to_it_and_no_others(mixer, depth):
    """At labelled positions alone as at all of them: what precedes a label is not what precedes it
    in the list of labels.
    """
    model = model_of({**TABLE, "mixer": mixer, "depth": depth}).double()
    tokens_BL = torch.randint(13, (B, L), generator=torch.Generator().manual_seed(1))
    everywhere = logits(model, tokens_BL, list(range(L)))
    torch.testing.assert_close(
        logits(model, tokens_BL, [9, 0, 4]), everywhere[:, :, [9, 0, 4]], rtol=1e-12, atol=1e-12
    )
    later = tokens_BL.clone()
    later[:, 5:] = (later[:, 5:] + 1) % 13
    assert torch.equal(logits(model, later, [4, 2]), logits(model, tokens_BL, [4, 2]))
    assert not torch.equal(logits(model, later, [5]), logits(model, tokens_BL, [5]))


def test_the_loss_depends_on_tokens_up_to_the_last_label():
    model = model_of({**TABLE, "mixer": "rwkv4"})
    generator = torch.Generator().manual_seed(2)
    tokens_BL, where_BK = (
        torch.randint(13, (B, L), generator=generator),
        torch.tensor([[6, 3], [2, 5]]),
    )
    labels_BK = torch.tensor([[1, 2], [3, IGNORE]])

    def loss(tokens: Tensor) -> Tensor:
        return model.loss(Batch(tokens, where_BK, labels_BK, labels_BK != IGNORE))

    later, earlier = tokens_BL.clone(), tokens_BL.clone()
    later[0, 7:], later[1, 3:] = 0, 0
    earlier[0, 5] = (earlier[0, 5] + 1) % 13
    assert torch.equal(loss(later), loss(tokens_BL))
    assert (loss(earlier) != loss(tokens_BL)).all()


def test_the_token_before_a_label_comes_through_the_channel_mix():
    """With a mixer that says nothing the channel mix of the last layer is all that looks back."""
    model = model_of({**TABLE, "depth": 1, "positions": "none"})
    with torch.no_grad():
        model.layers[0].mixer.out.weight.zero_()
    tokens_BL = torch.arange(L).expand(B, L)
    other_BL = tokens_BL.clone()
    other_BL[:, 4] = 12
    same = [
        torch.equal(logits(model, tokens_BL, [at]), logits(model, other_BL, [at]))
        for at in range(L)
    ]
    assert [at for at in range(L) if not same[at]] == [4, 5]
