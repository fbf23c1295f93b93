"""Softmax attention against PyTorch and flash-linear-attention."""

import pytest
import torch.nn.functional as F
from attention_made import DOUBLE, EXACT, B, D, L, P, Weights, causal, compare, ours
from fla.ops.attn.naive import naive_parallel_attn
from torch import Tensor, nn
from torch.func import functional_call
from zoo import inputs

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
