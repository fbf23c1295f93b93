"""Softmax attention against PyTorch, transformers and flash-linear-attention: outputs, gradients of
the input and all weights.

A peer is called with parameters made from ours by differentiable reshaping, so its gradients come
back in our layout.
"""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from fla.ops.attn.naive import naive_parallel_attn
from torch import Tensor, nn
from torch.func import functional_call
from transformers import (
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    MptConfig,
    Qwen3Config,
    T5Config,
)
from transformers.masking_utils import create_sliding_window_causal_mask
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXAttention, GPTNeoXRotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding
from transformers.models.mistral.modeling_mistral import MistralAttention, MistralRotaryEmbedding
from transformers.models.mpt.modeling_mpt import MptAttention, build_mpt_alibi_tensor
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3RotaryEmbedding
from transformers.models.t5.modeling_t5 import T5Attention
from zoo import Case, inputs, spread

from recollect.mixers.attention.mixer import Attention
from recollect.ops.softmax_attention import distances

P, B, L, D = 2, 3, 19, 48
DOUBLE = torch.float64
EXACT = 1e-10
# What follows a softmax or angles in float32 is off by its rounding, whatever dtype the rest has.
ROUNDED = 3e-7

Weights = dict[str, Tensor]
Peer = Callable[[Weights, Tensor], Tensor]  # one member's weights in our layout, x_BLD -> y_BLD


def ours(
    name: str, positions: str = "none", *, biases: bool = True, **options: object
) -> Attention:
    mixer = spread(
        Case(name, options, positions).build(population=P, width=D, length=L, dtype=DOUBLE)
    )
    assert isinstance(mixer, Attention)
    if not biases:
        with torch.no_grad():
            for key, parameter in mixer.named_parameters():
                parameter.mul_(not key.endswith("bias"))
    return mixer


def by_module(gradients: dict[str, Tensor]) -> list[Tensor]:
    """Weight and bias of a layer in one: a bias on all keys has no gradient of its own, as the
    softmax does not see it.
    """
    modules: dict[str, list[Tensor]] = {}
    for name, gradient in gradients.items():
        modules.setdefault(name.rpartition(".")[0] or name, []).append(gradient.flatten())
    return [torch.cat(parts) for parts in modules.values()]


def compare(
    agree: Callable[..., None],
    mixer: Attention,
    name: str,
    against: str,
    peer: Peer,
    tolerance: float,
    skip: tuple[str, ...] = (),
) -> None:
    """`skip` is how the names end of parameters that the peer does not have; they must be zero."""
    x_PBLD = inputs(P, B, L, D, dtype=DOUBLE).requires_grad_()
    upstream = inputs(P, B, L, D, dtype=DOUBLE, seed=2)
    y_PBLD = mixer(x_PBLD)
    compared = {key: value for key, value in mixer.named_parameters() if not key.endswith(skip)}
    found = torch.autograd.grad((y_PBLD * upstream).sum(), [x_PBLD, *compared.values()])
    for p in range(P):
        weights = {
            key: value[p].detach().clone().requires_grad_()
            for key, value in mixer.named_parameters()
        }
        x_BLD = x_PBLD[p].detach().clone().requires_grad_()
        y_BLD = peer(weights, x_BLD)
        agree(name, against, [y_PBLD[p].detach()], [y_BLD.detach()], tolerance)
        wanted = torch.autograd.grad(
            (y_BLD * upstream[p]).sum(), [x_BLD, *(weights[key] for key in compared)]
        )
        ours_p, theirs = (
            {"x": grads[0], **dict(zip(compared, grads[1:], strict=True))}
            for grads in ([g[p] for g in found], wanted)
        )
        agree(name, against, by_module(ours_p), by_module(theirs), tolerance, kind="gradients")


def causal() -> Tensor:
    return torch.ones(L, L, dtype=torch.bool).tril()


def hidden(visible_LL: Tensor) -> Tensor:
    """A mask that is added to scores, (1, 1, L, L)."""
    return torch.zeros(L, L, dtype=DOUBLE).masked_fill(~visible_LL, -math.inf)[None, None]


def projections(weights: Weights, names: str = "{}_proj", out: str = "o_proj") -> Weights:
    """Separate layers for q, k, v and the output, as nn.Linear keeps them."""
    found = {f"{out}.weight": weights["out.weight"].T, f"{out}.bias": weights["out.bias"]}
    for branch, weight, bias in zip(
        "qkv", weights["qkv.weight"].chunk(3, -1), weights["qkv.bias"].chunk(3, -1), strict=True
    ):
        found |= {f"{names.format(branch)}.weight": weight.T, f"{names.format(branch)}.bias": bias}
    return found


def without_biases(weights: Weights) -> Weights:
    return {name: value for name, value in weights.items() if not name.endswith("bias")}


# ---- PyTorch ----


@pytest.mark.parametrize("heads", [1, 4])
def test_torch_multihead_attention(agree, heads):
    mixer, module = (
        ours("attention", heads=heads),
        nn.MultiheadAttention(D, heads, batch_first=True).double(),
    )
    x_PBLD, matrices = inputs(P, B, L, D, dtype=DOUBLE), []

    def peer(weights: Weights, x_BLD: Tensor) -> Tensor:
        theirs = {
            "in_proj_weight": weights["qkv.weight"].T,
            "in_proj_bias": weights["qkv.bias"],
            "out_proj.weight": weights["out.weight"].T,
            "out_proj.bias": weights["out.bias"],
        }
        arguments = {"attn_mask": ~causal(), "need_weights": True, "average_attn_weights": False}
        y_BLD, weights_BHLL = functional_call(module, theirs, (x_BLD, x_BLD, x_BLD), arguments)
        matrices.append(weights_BHLL.detach())
        return y_BLD

    against = "torch.nn.MultiheadAttention, float64"
    compare(agree, mixer, "attention", against, peer, EXACT)
    agree(
        "attention",
        against,
        list(mixer.effective_attention(x_PBLD).weights_PBHLL.detach()),
        matrices,
        EXACT,
    )


def attend(q_BLD: Tensor, k_BLD: Tensor, v_BLD: Tensor, heads: int, mask_LL: Tensor) -> Tensor:
    q, k, v = (x.view(B, L, heads, D // heads).transpose(1, 2) for x in (q_BLD, k_BLD, v_BLD))
    return (
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask_LL).transpose(1, 2).reshape(B, L, D)
    )


@pytest.mark.parametrize("window", [1, 5, L])
def test_torch_scaled_dot_product_attention_in_a_window(agree, window):
    def peer(weights: Weights, x_BLD: Tensor) -> Tensor:
        q, k, v = F.linear(x_BLD, weights["qkv.weight"].T, weights["qkv.bias"]).chunk(3, -1)
        mixed_BLD = attend(q, k, v, 2, causal() & causal().T.tril(window - 1).T)
        return F.linear(mixed_BLD, weights["out.weight"].T, weights["out.bias"])

    mixer = ours("sliding_window", window=window, heads=2)
    compare(
        agree, mixer, "sliding_window", "torch scaled_dot_product_attention, float64", peer, EXACT
    )


def conv1d(weights: Weights, branch: str, x_BLD: Tensor, taps: int, padding: str) -> Tensor:
    module = nn.Conv1d(
        D, D, taps, groups=D, padding="same" if padding == "same" else taps - 1
    ).double()
    theirs = {
        "weight": weights[f"convs.{branch}.weight"].T[:, None],
        "bias": weights[f"convs.{branch}.bias"],
    }
    return functional_call(module, theirs, (x_BLD.transpose(1, 2),))[..., :L].transpose(1, 2)


# An even number of taps cannot be centred, of which PyTorch warns once.
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")
@pytest.mark.parametrize("padding", ["causal", "same"])
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize(("conv", "taps"), [("q", 2), ("k", 3), ("v", 4), ("qk", 5), ("qkv", 4)])
def test_torch_conv1d_and_attention(agree, conv, taps, place, padding):
    def peer(weights: Weights, x_BLD: Tensor) -> Tensor:
        parts = []
        for i, branch in enumerate("qkv"):
            inputs_BLD = (
                conv1d(weights, branch, x_BLD, taps, padding)
                if branch in conv and place == "before"
                else x_BLD
            )
            if place == "before":
                weight, bias = (
                    weights[f"projections.{branch}.weight"],
                    weights[f"projections.{branch}.bias"],
                )
            else:
                weight, bias = (
                    weights[f"qkv.{part}"].chunk(3, -1)[i] for part in ("weight", "bias")
                )
            part_BLD = F.linear(inputs_BLD, weight.T, bias)
            parts.append(
                conv1d(weights, branch, part_BLD, taps, padding)
                if branch in conv and place == "after"
                else part_BLD
            )
        return F.linear(attend(*parts, 2, causal()), weights["out.weight"].T, weights["out.bias"])

    mixer = ours(
        "attention", conv=conv, conv_kernel=taps, conv_place=place, conv_padding=padding, heads=2
    )
    compare(
        agree,
        mixer,
        "attention",
        f"torch.nn.Conv1d (padding {padding}) and attention, float64",
        peer,
        EXACT,
    )


# ---- transformers: float64 but for angles, and for a softmax in float32 where noted ----


@pytest.mark.parametrize("heads", [1, 4])
def test_transformers_llama_rotates_all_channels(agree, heads):
    config = LlamaConfig(
        hidden_size=D, num_attention_heads=heads, num_key_value_heads=heads, attention_bias=True
    )
    config._attn_implementation = "sdpa"
    module, rotary = LlamaAttention(config, layer_idx=0).double(), LlamaRotaryEmbedding(config)

    def peer(weights: Weights, x_BLD: Tensor) -> Tensor:
        angles = rotary(x_BLD, torch.arange(L)[None])
        return functional_call(module, projections(weights), (x_BLD, angles, None))[0]

    mixer = ours("attention", "rope", heads=heads)
    compare(
        agree,
        mixer,
        "attention",
        "transformers LlamaAttention, float64 with float32 angles",
        peer,
        ROUNDED,
    )


def test_transformers_llama_with_exact_angles(agree):
    """Without the rounding of its angles there is nothing left between the two."""
    heads, half = 2, D // 4
    config = LlamaConfig(
        hidden_size=D, num_attention_heads=heads, num_key_value_heads=heads, attention_bias=True
    )
    config._attn_implementation = "sdpa"
    module = LlamaAttention(config, layer_idx=0).double()
    frequencies = torch.tensor([10_000 ** (-i / half) for i in range(half)] * 2, dtype=DOUBLE)
    angles_1LD = torch.arange(L)[None, :, None] * frequencies

    def peer(weights: Weights, x_BLD: Tensor) -> Tensor:
        return functional_call(
            module, projections(weights), (x_BLD, (angles_1LD.cos(), angles_1LD.sin()), None)
        )[0]

    mixer = ours("attention", "rope", heads=heads)
    compare(
        agree,
        mixer,
        "attention",
        "transformers LlamaAttention, float64 with float64 angles",
        peer,
        EXACT,
    )


@pytest.mark.parametrize("heads", [1, 4])
def test_transformers_qwen3_normalises_queries_and_keys(agree, heads):
    config = Qwen3Config(
        hidden_size=D,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=D // heads,
        attention_bias=True,
        rms_norm_eps=1e-6,
    )
    config._attn_implementation = "sdpa"
    module, rotary = Qwen3Attention(config, layer_idx=0).double(), Qwen3RotaryEmbedding(config)

    def peer(weights: Weights, x_BLD: Tensor) -> Tensor:
        norms = {f"{branch}_norm.weight": weights[f"norms.{branch}.weight"] for branch in "qk"}
        angles = rotary(x_BLD, torch.arange(L)[None])
        return functional_call(module, projections(weights) | norms, (x_BLD, angles, None))[0]

    mixer = ours("attention", "rope", heads=heads, qk_norm=True)
    compare(
        agree,
        mixer,
        "attention",
        "transformers Qwen3Attention, float64 with norms and angles in float32",
        peer,
        10 * ROUNDED,
    )


def test_transformers_gpt_neox_rotates_a_quarter(agree):
    heads, share = 2, 0.25
    rope = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": share}
    config = GPTNeoXConfig(
        hidden_size=D, num_attention_heads=heads, attention_bias=True, rope_parameters=rope
    )
    config._attn_implementation = "sdpa"
    module, rotary = GPTNeoXAttention(config, layer_idx=0).double(), GPTNeoXRotaryEmbedding(config)

    def heads_first(values: Tensor) -> Tensor:
        """(..., three, heads, channels) -> (..., heads, three, channels)."""
        return values.unflatten(-1, (3, heads, -1)).transpose(-3, -2).flatten(-3)

    def peer(weights: Weights, x_BLD: Tensor) -> Tensor:
        theirs = {
            "query_key_value.weight": heads_first(weights["qkv.weight"]).T,
            "query_key_value.bias": heads_first(weights["qkv.bias"]),
            "dense.weight": weights["out.weight"].T,
            "dense.bias": weights["out.bias"],
        }
        arguments = {"position_embeddings": rotary(x_BLD, torch.arange(L)[None])}
        return functional_call(module, theirs, (x_BLD, None), arguments)[0]

    mixer = ours("attention", "rope", heads=heads, rope_share=share)
    compare(
        agree,
        mixer,
        "attention",
        "transformers GPTNeoXAttention, float64 with float32 angles",
        peer,
        ROUNDED,
    )


@pytest.mark.parametrize("heads", [1, 4, 6])
def test_transformers_mpt_has_alibi(agree, heads):
    module = MptAttention(MptConfig(d_model=D, n_heads=heads, max_seq_len=L), layer_idx=0).double()

    def peer(weights: Weights, x_BLD: Tensor) -> Tensor:
        theirs = {
            "Wqkv.weight": weights["qkv.weight"].T,
            "out_proj.weight": weights["out.weight"].T,
        }
        return functional_call(
            module, theirs, (x_BLD, build_mpt_alibi_tensor(heads, L), None, ~causal())
        )[0]

    mixer = ours("attention", "alibi", heads=heads, biases=False)
    compare(
        agree,
        mixer,
        "attention",
        "transformers MptAttention, float64 with float32 softmax",
        peer,
        ROUNDED,
        skip=("bias",),
    )


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 6, 7, 12, 16, 24, 40])
def test_transformers_mpt_has_the_same_slopes(agree, heads):
    """Those of a number of heads that is no power of two too."""
    mixer = Case("attention", {"heads": heads}, "alibi").build(population=1, width=heads, length=2)
    bias_1HLL = mixer._bias(distances(2, 2, torch.device("cpu")), torch.zeros(1))
    agree(
        "attention",
        "transformers build_mpt_alibi_tensor, float32",
        [bias_1HLL[0, :, 1:]],
        [build_mpt_alibi_tensor(heads, 2)],
        1e-7,
    )


@pytest.mark.parametrize("heads", [1, 4])
def test_transformers_t5_has_a_number_per_distance(agree, heads):
    """Half of its buckets are single distances, so with 2 L buckets all are.

    Its scores are not divided by sqrt(D).
    """
    config = T5Config(
        d_model=D,
        d_kv=D // heads,
        num_heads=heads,
        is_decoder=True,
        dropout_rate=0.0,
        relative_attention_num_buckets=2 * L,
        relative_attention_max_distance=4 * L,
    )
    config._attn_implementation = "eager"
    module = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()

    def peer(weights: Weights, x_BLD: Tensor) -> Tensor:
        theirs = without_biases(projections(weights, "{}", "o"))
        theirs["q.weight"] = theirs["q.weight"] / math.sqrt(D // heads)
        theirs["relative_attention_bias.weight"] = F.pad(weights["relative_PHL"], (0, L)).T
        return functional_call(module, theirs, (x_BLD, hidden(causal())))[0]

    mixer = ours("attention", "relative", heads=heads, biases=False)
    compare(
        agree, mixer, "attention", "transformers T5Attention, float64", peer, EXACT, skip=("bias",)
    )


@pytest.mark.parametrize("window", [1, 4, L + 1])
def test_transformers_mistral_slides_a_window(agree, window):
    """The mask is theirs too: a window of w shows the present and w - 1 positions before it."""
    config = MistralConfig(
        hidden_size=D, num_attention_heads=2, num_key_value_heads=2, sliding_window=window
    )
    config._attn_implementation = "eager"
    module, rotary = MistralAttention(config, layer_idx=0).double(), MistralRotaryEmbedding(config)

    def peer(weights: Weights, x_BLD: Tensor) -> Tensor:
        mask = create_sliding_window_causal_mask(config, x_BLD, None, None)
        angles = rotary(x_BLD, torch.arange(L)[None])
        return functional_call(module, without_biases(projections(weights)), (x_BLD, angles, mask))[
            0
        ]

    mixer = ours("sliding_window", "rope", window=window, heads=2, biases=False)
    against = "transformers MistralAttention, float64 with float32 angles and softmax"
    compare(agree, mixer, "sliding_window", against, peer, ROUNDED, skip=("bias",))


# ---- flash-linear-attention ----


@pytest.mark.parametrize(
    ("name", "options"),
    [("attention", {}), ("sliding_window", {"window": 1}), ("sliding_window", {"window": 6})],
)
def test_fla_naive_attention(agree, name, options):
    def peer(weights: Weights, x_BLD: Tensor) -> Tensor:
        parts = (
            F.linear(x_BLD, weights["qkv.weight"].T, weights["qkv.bias"])
            .unflatten(-1, (3, 4, -1))
            .unbind(2)
        )
        mixed_BLHD = naive_parallel_attn(*parts, window_size=options.get("window"))[0]
        return F.linear(mixed_BLHD.flatten(-2), weights["out.weight"].T, weights["out.bias"])

    compare(
        agree,
        ours(name, heads=4, **options),
        name,
        "fla.ops.attn naive_parallel_attn, float64",
        peer,
        EXACT,
    )
