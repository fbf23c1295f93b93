"""Options of the block and the head: how output projections start, what is tied, what is refused.

The functions themselves are compared in test_model.py and, with GPT-NeoX, in tests/peers.
"""

import math

import pytest
import torch
from test_model import model_of, some_batch

from recollect.errors import SpecError
from recollect.model import channel
from recollect.ops.mlp import mlp
from recollect.spec.model import ModelSpec

UNIFORM = 1 / math.sqrt(3)
# Standard deviation of an output projection that is not rescaled, at width 64, and what its own
# code divides it by in a model of depth 3.
FULL = {
    "attention": (0.02, math.sqrt(6)),
    "sliding_window": (0.02, math.sqrt(6)),
    "hyena": (0.02, math.sqrt(6)),
    "mamba": (UNIFORM / math.sqrt(128), math.sqrt(3)),
    "mamba2": (UNIFORM / math.sqrt(128), math.sqrt(3)),
    "s6": (UNIFORM / math.sqrt(128), math.sqrt(3)),
}


@pytest.mark.parametrize(
    ("block", "branches"), [("mixer+mlp", 2), ("mixer", 1), ("mixer+identity", 1)]
)
@pytest.mark.parametrize("rescale", ["own", "branches", "none"])
@pytest.mark.parametrize("mixer", FULL)
def test_output_projections_start_as_asked(mixer, rescale, block, branches):
    table = {"mixer": mixer, "depth": 3, "block": block, "rescale": rescale}
    model = model_of(table, population=4)
    full, own = FULL[mixer]
    divisors = {"own": own, "branches": math.sqrt(3 * branches), "none": 1.0}
    outputs = [(layer.mixer.out.weight, full / divisors[rescale]) for layer in model.layers]
    if block == "mixer+mlp":
        divisors["own"] = math.sqrt(6)
        outputs += [(layer.channel.down.weight, 0.02 / divisors[rescale]) for layer in model.layers]
    for weight, std in outputs:
        assert weight.std().item() == pytest.approx(std, rel=4 / math.sqrt(2 * weight.numel()))


def test_rescaling_draws_the_same_numbers():
    one, other = (
        dict(model_of({"mixer": "mamba", "rescale": rescale}).named_parameters())
        for rescale in ("own", "none")
    )
    for name, value in one.items():
        factor = math.sqrt(2) if name.endswith("out.weight") else 1.0
        torch.testing.assert_close(value * factor, other[name], msg=name)


def test_an_untied_head_is_a_matrix_of_its_own():
    tied = model_of({"mixer": "attention", "width": 8})
    untied = model_of({"mixer": "attention", "width": 8, "head": "untied"})
    assert untied.parameters_per_member() == tied.parameters_per_member() + 13 * 8
    assert not torch.equal(untied.head.weight, untied.embedding.weight)
    batch = some_batch()
    unused = sorted(set(range(13)) - set(batch.tokens_BL.flatten().tolist()))
    loss_P = untied.loss(batch)
    loss_P.sum().backward()
    assert (untied.head.weight.grad.abs().amax(2) > 0).all()  # every entry is scored
    assert not untied.embedding.weight.grad[:, unused].any()  # and not every one is looked up
    torch.testing.assert_close(untied.verdict(batch)[0], loss_P)


@pytest.mark.parametrize("residual", ["serial", "parallel"])
def test_a_bias_that_is_left_to_the_next_norm_is_added_there(monkeypatch, residual):
    """As on a GPU, where the MLP gives its last bias away as a shift."""
    table = {"mixer": "attention", "block": "mixer+mlp", "depth": 2, "residual": residual}
    model, batch = model_of(table), some_batch()
    with torch.no_grad():
        for block in model.layers:
            block.channel.down.bias.copy_(torch.randn(block.channel.down.bias.shape))
    whole_P, shifts = model.loss(batch), []

    def shifting(x, up, up_bias, down, down_bias):
        shifts.append(down_bias)
        return mlp(x, up, up_bias, down, torch.zeros_like(down_bias))[0], down_bias

    monkeypatch.setattr(channel, "mlp", shifting)
    torch.testing.assert_close(model.loss(batch), whole_P)
    assert len(shifts) == 2


def test_two_halves_are_needed_to_be_parallel():
    with pytest.raises(SpecError) as caught:
        ModelSpec.parse({"mixer": "mamba", "residual": "parallel"})
    assert str(caught.value) == (
        'residual = "parallel": block = "mixer" has one half and nothing beside it; use block = '
        '"mixer+mlp"'
    )
