"""RWKV-4's time mix, its weighted mean and its channel mix against transformers and fla,
with copied weights.

transformers casts keys to float32, and starts its sums so, whatever the input is; `as_double` makes
these casts float64, so that the rest of its code is compared in full. fla has Triton kernels only,
which an interpreter runs without a GPU.
"""

import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn
from transformers.models.rwkv.configuration_rwkv import RwkvConfig
from transformers.models.rwkv.modeling_rwkv import (
    RwkvFeedForward,
    RwkvSelfAttention,
    rwkv_linear_attention_cpu,
)
from zoo import Case, inputs, spread

from recollect.model.channel import ChannelMix
from recollect.model.layers import Layer, Linear, initialise
from recollect.ops.wkv import wkv

P, B, L, D = 3, 2, 33, 12
TIME_MIX = {
    "time_decay_PD": "time_decay",
    "time_first_PD": "time_first",
    "mix_key_PD": "time_mix_key",
    "mix_value_PD": "time_mix_value",
    "mix_receptance_PD": "time_mix_receptance",
    "key": "key",
    "value": "value",
    "receptance": "receptance",
    "out": "output",
}
CHANNEL_MIX = {
    "mix_key_PD": "time_mix_key",
    "mix_gate_PD": "time_mix_receptance",
    "key": "key",
    "gate": "receptance",
    "value": "value",
}


@pytest.fixture
def as_double(monkeypatch):
    zeros_like = torch.zeros_like
    monkeypatch.setattr(Tensor, "float", Tensor.double)
    monkeypatch.setattr(torch, "zeros_like", lambda tensor, dtype=None: zeros_like(tensor))


def pairs(
    ours: Layer, theirs: nn.Module, names: dict[str, str]
) -> list[tuple[nn.Parameter, nn.Parameter]]:
    """Each of our stacked parameters with the one of the other module that it is compared with."""
    modules = [(getattr(ours, own), getattr(theirs, other)) for own, other in names.items()]
    return [
        (own.weight, other.weight) if isinstance(own, Linear) else (own, other)
        for own, other in modules
    ]


def in_their_shape(own: Tensor, other: Tensor) -> Tensor:
    return own.T if own.dim() == 2 else own.view_as(other)


def compare(
    agree, name, against, ours: Layer, build, names: dict[str, str], tolerances: tuple[float, float]
) -> None:
    dtype = next(ours.parameters()).dtype
    x_PBLD, weight = (
        inputs(P, B, L, D, dtype=dtype).requires_grad_(),
        inputs(P, B, L, D, dtype=dtype, seed=2),
    )
    y_PBLD = ours(x_PBLD)
    (y_PBLD * weight).sum().backward()
    for p in range(P):
        theirs = build().to(dtype)
        with torch.no_grad():
            for own, other in pairs(ours, theirs, names):
                other.copy_(in_their_shape(own[p], other))
        x_BLD = x_PBLD[p].detach().clone().requires_grad_()
        y_BLD, _ = theirs(x_BLD)
        (y_BLD * weight[p]).sum().backward()
        agree(name, against, [y_PBLD[p].detach()], [y_BLD.detach()], tolerances[0])
        found = [in_their_shape(own.grad[p], other) for own, other in pairs(ours, theirs, names)]
        wanted = [other.grad for _, other in pairs(ours, theirs, names)]
        agree(
            name,
            against,
            [x_PBLD.grad[p], *found],
            [x_BLD.grad, *wanted],
            tolerances[1],
            kind="gradients",
        )


def config() -> RwkvConfig:
    return RwkvConfig(
        hidden_size=D,
        attention_hidden_size=D,
        intermediate_size=4 * D,
        context_length=L,
        num_hidden_layers=2,
    )


@pytest.mark.parametrize("layer", [0, 1])
def test_time_mix_is_that_of_transformers(agree, as_double, layer):
    ours = spread(Case("rwkv4", layer=layer).build(P, D, dtype=torch.float64))
    against = "transformers RwkvSelfAttention, float64"
    compare(
        agree, "rwkv4", against, ours, lambda: RwkvSelfAttention(config()), TIME_MIX, (1e-13, 1e-13)
    )


def test_time_mix_is_that_of_transformers_as_it_stands(agree):
    ours = spread(Case("rwkv4").build(P, D))
    against = "transformers RwkvSelfAttention, float32"
    compare(
        agree, "rwkv4", against, ours, lambda: RwkvSelfAttention(config()), TIME_MIX, (1e-6, 3e-6)
    )


@pytest.mark.parametrize("keys", [1.0, 10.0])
def test_the_weighted_mean_is_that_of_transformers(agree, as_double, keys):
    k, v = (
        inputs(1, B, 65, D, dtype=torch.float64) * keys,
        inputs(1, B, 65, D, dtype=torch.float64, seed=2),
    )
    decay, first = (
        inputs(1, D, dtype=torch.float64, seed=3),
        inputs(1, D, dtype=torch.float64, seed=4),
    )
    tensors = [x.requires_grad_() for x in (decay, first, k, v)]
    weight = inputs(1, B, 65, D, dtype=torch.float64, seed=5)
    found = wkv(k, v, -decay.exp(), first)
    wanted, _ = rwkv_linear_attention_cpu(decay[0], first[0], k[0], v[0])
    against = "transformers rwkv_linear_attention_cpu, float64"
    agree("rwkv4", against, [found.detach()], [wanted[None].detach()], 1e-13)
    ours = torch.autograd.grad((found * weight).sum(), tensors)
    theirs = torch.autograd.grad((wanted * weight[0]).sum(), tensors)
    agree("rwkv4", against, ours, theirs, 1e-13, kind="gradients")


# Triton decides at its import whether it compiles or interprets, so this needs a process of its
# own.
FLA = """
import sys, torch
from fla.ops.rwkv4.fused_recurrent import fused_recurrent_rwkv4
*tensors, weight, past = torch.load(sys.argv[1])
y, _ = fused_recurrent_rwkv4(*[x.requires_grad_() for x in tensors], past)
torch.save([y.detach(), *torch.autograd.grad((y * weight).sum(), tensors)], sys.argv[2])
"""


def test_the_weighted_mean_is_that_of_flas_kernels(agree, tmp_path):
    """Both kernels line by line; they compute in float32."""
    decay, first, k, v = (
        inputs(D, seed=3),
        inputs(D, seed=4),
        inputs(B, 9, D) * 10,
        inputs(B, 9, D, seed=2),
    )
    weight, past = inputs(B, 9, D, seed=5), torch.zeros(B, 3, 1, D)
    past[:, 2] = -1e30  # the exponent of a past without weight
    tensors = [decay, first, k, v]
    torch.save([*tensors, weight, past], tmp_path / "given")
    command = [sys.executable, "-c", FLA, tmp_path / "given", tmp_path / "found"]
    subprocess.run(
        command,
        check=True,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        timeout=300,
    )
    wanted, *theirs = torch.load(tmp_path / "found")
    for tensor in tensors:
        tensor.requires_grad_()
    found = wkv(k[None], v[None], -decay[None].exp(), first[None])[0]
    ours = torch.autograd.grad((found * weight).sum(), tensors)
    against = "fla.ops.rwkv4 kernels (interpreted), float32"
    agree("rwkv4", against, [found.detach()], [wanted], 1e-6)
    agree("rwkv4", against, ours, theirs, 3e-6, kind="gradients")


def test_channel_mix_is_that_of_transformers(agree):
    ours = ChannelMix(P, D, 4 * D, layer=1, layers=2)
    initialise(ours, [1, 2, 3])
    against = "transformers RwkvFeedForward, float64"
    compare(
        agree,
        "channel mix",
        against,
        spread(ours.double()),
        lambda: RwkvFeedForward(config()),
        CHANNEL_MIX,
        (1e-13, 1e-13),
    )
