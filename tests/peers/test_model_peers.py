"""A whole model against transformers: the transformer of the copying task is GPT-NeoX, its logits,
gradients and initial weights.
"""

import pytest
import torch
from torch import Tensor
from torch.func import functional_call
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from recollect.model.layers import initialise
from recollect.model.model import Model
from recollect.spec.model import ModelSpec

P, B, L, D, V, HEADS, DEPTH = 2, 3, 19, 32, 29, 2, 3
SHARE = 0.25
# Their angles are in float32, whatever dtype the rest has.
ROUNDED = 3e-7
OURS = {
    "mixer": {"name": "attention", "heads": HEADS, "rope_share": SHARE},
    "width": D,
    "depth": DEPTH,
    "positions": "rope",
    "residual": "parallel",
    "head": "untied",
    "rescale": "none",
}


def our_model(population: int = P) -> Model:
    model = Model(ModelSpec.parse(OURS), population, V, L)
    initialise(model, list(range(population)))
    return model


def their_model() -> GPTNeoXForCausalLM:
    rope = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": SHARE}
    config = GPTNeoXConfig(
        vocab_size=V,
        hidden_size=D,
        num_hidden_layers=DEPTH,
        num_attention_heads=HEADS,
        intermediate_size=4 * D,
        rope_parameters=rope,
        use_cache=False,
    )
    assert config.use_parallel_residual
    assert not config.tie_word_embeddings
    config._attn_implementation = "sdpa"
    return GPTNeoXForCausalLM(config)


def heads_first(values: Tensor) -> Tensor:
    """(..., three, heads, channels) -> (..., heads, three, channels)."""
    return values.unflatten(-1, (3, HEADS, -1)).transpose(-3, -2).flatten(-3)


def theirs_from_ours(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """One member's weights under their names, differentiably."""
    found = {
        "gpt_neox.embed_in.weight": weights["embedding.weight"],
        "lm_head.weight": weights["head.weight"],
    }
    for part in ("weight", "bias"):
        found[f"gpt_neox.final_layer_norm.{part}"] = weights[f"norm.{part}"]
    names = {
        "norm_mixer": "input_layernorm",
        "norm_channel": "post_attention_layernorm",
        "mixer.qkv": "attention.query_key_value",
        "mixer.out": "attention.dense",
        "channel.up": "mlp.dense_h_to_4h",
        "channel.down": "mlp.dense_4h_to_h",
    }
    for layer in range(DEPTH):
        for mine, other in names.items():
            for part in ("weight", "bias"):
                value = weights[f"blocks.{layer}.{mine}.{part}"]
                value = heads_first(value) if mine == "mixer.qkv" else value
                transposed = value.T if value.dim() == 2 else value
                found[f"gpt_neox.layers.{layer}.{other}.{part}"] = transposed
    return found


def test_transformers_gpt_neox_is_the_transformer_of_the_copying_task(agree):
    model, peer = our_model().double(), their_model().double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():  # zeros and ones would hide mistakes
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(
                parameter.shape, generator=generator, dtype=torch.float64
            )
    tokens_BL = torch.randint(V, (B, L), generator=generator)
    everywhere_BL = torch.arange(L).expand(B, L)
    logits_PBLV = model(tokens_BL, everywhere_BL).view(P, B, L, V)
    weights_of_loss = torch.cos(torch.arange(logits_PBLV.numel())).view_as(logits_PBLV)
    (logits_PBLV * weights_of_loss).sum().backward()
    for p in range(P):
        weights = {
            name: value[p].detach().requires_grad_() for name, value in model.named_parameters()
        }
        arguments = {"input_ids": tokens_BL}
        wanted = functional_call(peer, theirs_from_ours(weights), (), arguments).logits
        against = "transformers GPTNeoXForCausalLM, float64 with float32 angles"
        agree("attention", against, [logits_PBLV[p]], [wanted], ROUNDED)
        (wanted * weights_of_loss[p]).sum().backward()
        # A bias on all keys has no gradient: the softmax does not see it.
        names = [name for name in weights if not name.endswith("qkv.bias")]
        gradients = dict(model.named_parameters())
        found = [gradients[name].grad[p] for name in names]
        agree(
            "attention",
            against,
            found,
            [weights[name].grad for name in names],
            10 * ROUNDED,
            "gradients",
        )


def test_initial_weights_are_spread_as_those_of_transformers():
    torch.manual_seed(0)
    members = 8
    theirs = [dict(their_model().named_parameters()) for _ in range(members)]
    model = our_model(members)
    ours = [
        theirs_from_ours({name: value[p] for name, value in model.named_parameters()})
        for p in range(members)
    ]
    assert set(ours[0]) == set(theirs[0])
    for name, value in theirs[0].items():
        mine, other = (
            torch.stack([weights[name] for weights in all_weights])
            for all_weights in (ours, theirs)
        )
        assert mine[0].shape == value.shape, name
        # Four standard errors of the ratio of two standard deviations.
        assert mine.std().item() == pytest.approx(
            other.std().item(), rel=4 / other.numel() ** 0.5
        ), name
        assert mine.mean().item() == pytest.approx(other.mean().item(), abs=0.002), name
    total = sum(parameter.numel() for parameter in theirs[0].values())
    assert model.parameters_per_member() == total
