"""DeltaNet and Gated DeltaNet as whole layers against fla's, and against those of transformers'
Qwen3-Next and Qwen3.5: copied weights, outputs, and gradients of the input and of every weight.
"""

import inspect

import fla.layers.delta_net as fla_delta_net
import fla.layers.gated_deltanet as fla_gated_delta_net
import pytest
import torch
import torch.nn.functional as F
from fla.ops.delta_rule.naive import (
    delta_rule_chunkwise,
)
from fla.ops.gated_delta_rule.naive import (
    naive_chunk_gated_delta_rule,
)
from torch import Tensor, nn
from transformers.models.qwen3_5 import modeling_qwen3_5
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
from transformers.models.qwen3_next import modeling_qwen3_next
from transformers.models.qwen3_next.configuration_qwen3_next import Qwen3NextConfig
from zoo import Case, inputs, spread

from recollect.mixers.base import Mixer

DOUBLE, LENGTH, HEADS, KEYS, VALUES, WIDTH = torch.float64, 128, 2, 8, 16, 16
# All peers but two keep a float32 state whatever they are given; theirs is the rounding that these
# tolerances allow for.
SINGLE_OUTPUTS, SINGLE_GRADIENTS = 2e-6, 5e-6


def compare_layers(
    agree,
    against: str,
    mixer: Mixer,
    layer: nn.Module,
    names: dict[str, str | list[str]],
    outputs: float,
    gradients: float,
) -> None:
    """`names`: our parameter -> theirs, or several of theirs that ours holds side by side; theirs
    have the outputs first.
    """
    ours, theirs = dict(mixer.named_parameters()), dict(layer.named_parameters())
    assert set(names) == set(ours)
    name = "gated_delta_net" if "a_log_PH" in ours else "delta_net"
    parts = {key: [value] if isinstance(value, str) else value for key, value in names.items()}
    assert sorted(part for group in parts.values() for part in group) == sorted(theirs)
    with torch.no_grad():
        for key, group in parts.items():
            pieces = ours[key][0].split([theirs[part].shape[0] for part in group], dim=-1)
            for part, piece in zip(group, pieces, strict=True):
                theirs[part].copy_(piece.t().reshape(theirs[part].shape))
    dtype = ours["qkv.weight"].dtype
    x, weight = (
        inputs(1, 2, LENGTH, WIDTH, dtype=dtype),
        inputs(1, 2, LENGTH, WIDTH, dtype=dtype, seed=2),
    )
    x, x_theirs = x.clone().requires_grad_(), x[0].clone().requires_grad_()
    y, y_theirs = mixer(x), layer(x_theirs)
    y_theirs = y_theirs[0] if isinstance(y_theirs, tuple) else y_theirs
    agree(name, against, [y[0].detach()], [y_theirs.detach()], outputs)
    found = torch.autograd.grad((y * weight).sum(), [x, *ours.values()])
    (y_theirs * weight[0]).sum().backward()
    wanted = [x_theirs.grad[None]]
    for key in ours:
        pieces = [theirs[part].grad for part in parts[key]]
        flat = torch.cat(
            [piece.reshape(piece.shape[0], -1).T if piece.dim() > 1 else piece for piece in pieces],
            dim=-1,
        )
        wanted.append(flat.reshape(ours[key].shape))
    agree(name, against, found, wanted, gradients, kind="gradients")


def ours(name: str, options: dict, dtype: torch.dtype) -> Mixer:
    return spread(Case(name, options).build(population=1, width=WIDTH, length=LENGTH, dtype=dtype))


def qwen(module, config_class, layer_class, monkeypatch) -> nn.Module:
    for function in ("torch_chunk_gated_delta_rule", "causal_conv1d_fn"):
        monkeypatch.setattr(module, function, inspect.unwrap(getattr(module, function)))
    config = config_class(
        hidden_size=WIDTH,
        linear_num_value_heads=HEADS,
        linear_num_key_heads=HEADS,
        linear_key_head_dim=WIDTH // HEADS,
        linear_value_head_dim=2 * WIDTH // HEADS,
        linear_conv_kernel_dim=4,
        rms_norm_eps=1e-5,
        num_hidden_layers=4,
    )
    return getattr(module, layer_class)(config, layer_idx=0)


COMMON = {
    "conv.weight": "conv1d.weight",
    "norm.weight": "norm.weight",
    "out.weight": "out_proj.weight",
}
DECAY = {"a_log_PH": "A_log", "forget.bias": "dt_bias"}


def test_qwen3_5_layer(agree, monkeypatch):
    layer = qwen(modeling_qwen3_5, Qwen3_5TextConfig, "Qwen3_5GatedDeltaNet", monkeypatch)
    names = (
        COMMON
        | DECAY
        | {
            "qkv.weight": "in_proj_qkv.weight",
            "gate.weight": "in_proj_z.weight",
            "write.weight": "in_proj_b.weight",
            "forget.weight": "in_proj_a.weight",
        }
    )
    mixer = ours("gated_delta_net", {"heads": HEADS, "gate": True}, torch.float32)
    compare_layers(
        agree,
        "transformers Qwen3_5GatedDeltaNet, float32",
        mixer,
        layer,
        names,
        SINGLE_OUTPUTS,
        SINGLE_GRADIENTS,
    )


class SeparatedQwen3Next(nn.Module):
    """Qwen3-Next's layer with its two interleaved projections given as the separate ones that they
    hold, head by head.
    """

    def __init__(self, layer: nn.Module):
        super().__init__()
        sizes = {"q": WIDTH, "k": WIDTH, "v": 2 * WIDTH, "z": 2 * WIDTH, "b": HEADS, "a": HEADS}
        self.separate = nn.ParameterDict(
            {name: nn.Parameter(torch.empty(size, WIDTH)) for name, size in sizes.items()}
        )
        self.dt_bias, self.A_log = layer.dt_bias, layer.A_log
        self.conv1d, self.norm, self.out_proj = layer.conv1d, layer.norm, layer.out_proj
        self.layer = [
            layer
        ]  # in a list: its parameters are the ones above, and the two that are replaced

    def forward(self, x: Tensor) -> Tensor:
        by_head = {name: weight.view(HEADS, -1, WIDTH) for name, weight in self.separate.items()}
        together = {
            "in_proj_qkvz.weight": torch.cat([by_head[name] for name in "qkvz"], dim=1).flatten(
                0, 1
            ),
            "in_proj_ba.weight": torch.cat([by_head[name] for name in "ba"], dim=1).flatten(0, 1),
        }
        return torch.func.functional_call(self.layer[0], together, (x,))


def test_qwen3_next_layer(agree, monkeypatch):
    layer = SeparatedQwen3Next(
        qwen(modeling_qwen3_next, Qwen3NextConfig, "Qwen3NextGatedDeltaNet", monkeypatch)
    )
    names = (
        COMMON
        | DECAY
        | {
            "qkv.weight": ["separate.q", "separate.k", "separate.v"],
            "gate.weight": "separate.z",
            "write.weight": "separate.b",
            "forget.weight": "separate.a",
        }
    )
    mixer = ours("gated_delta_net", {"heads": HEADS, "gate": True}, torch.float32)
    compare_layers(
        agree,
        "transformers Qwen3NextGatedDeltaNet, float32",
        mixer,
        layer,
        names,
        SINGLE_OUTPUTS,
        SINGLE_GRADIENTS,
    )


# ---- fla's layers: their wiring and their plain rules ----
# Convolutions and norms are Triton there, and PyTorch's own here.


class PlainConvolution(nn.Conv1d):
    def __init__(self, hidden_size: int, kernel_size: int, bias: bool, activation: str):
        super().__init__(
            hidden_size,
            hidden_size,
            kernel_size,
            groups=hidden_size,
            padding=kernel_size - 1,
            bias=bias,
        )
        assert activation == "silu"
        self.activation, self.backend = activation, "plain"

    def forward(self, x: Tensor, **_) -> tuple[Tensor, None]:
        return F.silu(super().forward(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)), None


def plain_convolution(x: Tensor, weight: Tensor, **_) -> tuple[Tensor, None]:
    taps = weight.shape[1]
    mixed = F.conv1d(x.transpose(1, 2), weight[:, None], groups=len(weight), padding=taps - 1)
    return F.silu(mixed[..., : x.shape[1]].transpose(1, 2)), None


class PlainNorm(nn.Module):
    def __init__(self, hidden_size: int, eps: float, **_):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden_size)), eps

    def forward(self, x: Tensor, gate: Tensor | None = None) -> Tensor:
        y = F.rms_norm(x, x.shape[-1:], self.weight, self.eps)
        return y if gate is None else y * F.silu(gate)


def unit(x: Tensor) -> Tensor:
    return x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()


def plain_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, use_qk_l2norm_in_kernel: bool, **_
) -> tuple[Tensor, None]:
    assert use_qk_l2norm_in_kernel
    q, k, v, beta = (x.transpose(1, 2) for x in (unit(q), unit(k), v, beta))
    return delta_rule_chunkwise(q, k, v, beta)[0].transpose(1, 2), None


def plain_gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    allow_neg_eigval: bool,
    **others,
) -> tuple[Tensor, None]:
    for option in ("use_qk_l2norm_in_kernel", "use_beta_sigmoid_in_kernel", "use_gate_in_kernel"):
        assert others[option]
    beta = beta.sigmoid() * (2 if allow_neg_eigval else 1)
    return naive_chunk_gated_delta_rule(
        unit(q), unit(k), v, -A_log.exp() * F.softplus(g + dt_bias), beta
    )[0], None


@pytest.fixture
def plain_fla(monkeypatch) -> None:
    for module in (fla_delta_net, fla_gated_delta_net):
        monkeypatch.setattr(module, "ShortConvolution", PlainConvolution)
        monkeypatch.setattr(module, "RMSNorm", PlainNorm)
        monkeypatch.setattr(module, "FusedRMSNormGated", PlainNorm)
    monkeypatch.setattr(fla_delta_net, "chunk_delta_rule", plain_delta_rule)
    monkeypatch.setattr(fla_gated_delta_net, "causal_conv1d", plain_convolution)
    monkeypatch.setattr(fla_gated_delta_net, "chunk_gated_delta_rule", plain_gated_delta_rule)


FLA_NAMES: dict[str, str | list[str]] = {
    "qkv.weight": ["q_proj.weight", "k_proj.weight", "v_proj.weight"],
    "conv.weight": ["q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight"],
    "write.weight": "b_proj.weight",
    "norm.weight": "o_norm.weight",
    "out.weight": "o_proj.weight",
}
fla_options = pytest.mark.parametrize(
    ("gate", "negative"), [(False, False), (True, False), (False, True)]
)


@fla_options
@pytest.mark.usefixtures("plain_fla")
def test_fla_delta_net_layer(agree, gate, negative):
    layer = fla_delta_net.DeltaNet(
        hidden_size=WIDTH, num_heads=HEADS, use_gate=gate, allow_neg_eigval=negative, conv_size=4
    ).to(DOUBLE)
    mixer = ours("delta_net", {"heads": HEADS, "gate": gate, "negative": negative}, DOUBLE)
    names = FLA_NAMES | ({"gate.weight": "g_proj.weight"} if gate else {})
    compare_layers(
        agree, "fla.layers.DeltaNet with plain kernels, float64", mixer, layer, names, 1e-11, 1e-11
    )


@fla_options
@pytest.mark.usefixtures("plain_fla")
def test_fla_gated_delta_net_layer(agree, gate, negative):
    layer = fla_gated_delta_net.GatedDeltaNet(
        hidden_size=WIDTH,
        num_heads=HEADS,
        head_dim=WIDTH // HEADS,
        expand_v=2,
        use_gate=gate,
        allow_neg_eigval=negative,
    )
    mixer = ours(
        "gated_delta_net", {"heads": HEADS, "gate": gate, "negative": negative}, torch.float32
    )
    names = (
        FLA_NAMES
        | DECAY
        | {"forget.weight": "a_proj.weight"}
        | ({"gate.weight": "g_proj.weight"} if gate else {})
    )
    against = "fla.layers.GatedDeltaNet with plain kernels, float32"
    compare_layers(agree, against, mixer, layer, names, SINGLE_OUTPUTS, SINGLE_GRADIENTS)
