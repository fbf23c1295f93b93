"""Softmax attention against transformers: float64 but for angles, and for a softmax in float32
where noted.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from attention_made import (
    DOUBLE,
    EXACT,
    ROUNDED,
    D,
    L,
    Weights,
    causal,
    compare,
    hidden,
    ours,
    projections,
    without_biases,
)
from torch import Tensor
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
from zoo import Case

from recollect.ops.softmax_attention import distances


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
