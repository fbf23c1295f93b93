"""Linear attention, Based, RetNet and GLA against the layers of fla, with copied weights:
outputs and all gradients.

The kernels of these layers need a GPU. In their place stand the plain PyTorch functions that fla
tests its kernels with, so that all the wiring around them is fla's own. These compute in float32
whatever they are given. As they are, they are compared at float32's precision; and once more with
their casts turned into casts to float64, which shows that rounding is all that is left.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import fla.layers.gla
import fla.layers.linear_attn
import fla.layers.multiscale_retention
import fla.modules.rotary.ops
import pytest
import torch
from fla.layers.based import BasedLinearAttention
from fla.layers.gla import GatedLinearAttention
from fla.layers.linear_attn import LinearAttention
from fla.layers.multiscale_retention import MultiScaleRetention
from fla.modules.norm.layernorm import RMSNorm, rms_norm_ref
from fla.modules.rotary.ops import rotary_embedding_ref
from fla.ops.based.naive import naive_parallel_based
from fla.ops.gla.naive import naive_recurrent_gla
from fla.ops.linear_attn.naive import naive_chunk_linear_attn, naive_recurrent_linear_attn
from fla.ops.retention.naive import naive_retention
from fla.ops.simple_gla.naive import naive_recurrent_simple_gla
from torch import Tensor, nn
from zoo import Case, inputs, spread

from recollect.mixers.base import Mixer
from recollect.ops.gla import decayed_scores
from recollect.ops.layout import rotate

WIDTH, LENGTH, ROWS = 24, 37, 3
EXACT, ROUNDED = 1e-12, 1e-5
ATTENTION = {
    "q_proj.weight": "query.weight",
    "k_proj.weight": "key.weight",
    "v_proj.weight": "value.weight",
    "o_proj.weight": "out.weight",
}
GATED = {**ATTENTION, "g_proj.weight": "gate.weight", "g_norm.weight": "norm.weight"}
LOW_RANK = {
    "gk_proj.0.weight": "low.weight",
    "gk_proj.1.weight": "decay.weight",
    "gk_proj.1.bias": "decay.bias",
}

widths = pytest.mark.parametrize(
    ("wide", "tolerance"), [(False, ROUNDED), (True, EXACT)], ids=["float32", "float64"]
)
two_numbers_of_heads = pytest.mark.parametrize("heads", [1, 3])


@contextmanager
def without_kernels(wide: bool) -> Iterator[None]:
    """fla with its plain functions in place of its kernels;
    if `wide`, what it casts to float32 it casts to float64.
    """

    def retention(q: Tensor, k: Tensor, v: Tensor, **_: object) -> tuple[Tensor, None]:
        return naive_retention(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2), None

    patches = [
        patch.object(
            fla.layers.linear_attn,
            "chunk_linear_attn",
            lambda q, k, v, normalize, **_: naive_recurrent_linear_attn(
                q, k, v, normalize=normalize
            ),
        ),
        patch.object(fla.layers.multiscale_retention, "chunk_retention", retention),
        patch.object(
            fla.layers.gla,
            "fused_recurrent_gla",
            lambda q, k, v, gk, **_: naive_recurrent_gla(q, k, v, gk),
        ),
        patch.object(
            fla.modules.rotary.ops,
            "rotary_embedding",
            lambda x, cos, sin, interleaved, **_: rotary_embedding_ref(x, cos, sin, interleaved),
        ),
        patch.dict(fla.layers.gla.ACT2FN, swish=nn.functional.silu),
        patch.object(
            RMSNorm, "forward", lambda self, x: rms_norm_ref(x, self.weight, None, eps=self.eps)
        ),
    ]
    if wide:
        patches.append(patch.object(torch.Tensor, "float", torch.Tensor.double))
        patches += [patch.object(torch, name, torch.float64) for name in ("float", "float32")]
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield


def label(peer: str, wide: bool) -> str:
    return f"{peer}, {'float64 in place of its float32' if wide else 'float32'}"


def dtype_of(wide: bool) -> torch.dtype:
    return torch.float64 if wide else torch.float32


def ours(name: str, wide: bool, length: int = LENGTH, **options: object) -> Mixer:
    return spread(
        Case(name, options).build(population=1, width=WIDTH, length=length, dtype=dtype_of(wide))
    )


def as_theirs(value: Tensor) -> Tensor:
    """One member's tensor in the layout of PyTorch's Linear: (out, in)."""
    return value.T if value.dim() == 2 else value


def compare(
    agree: Callable[..., None],
    mixer: Mixer,
    make: Callable[[], nn.Module],
    names: dict[str, str],
    against: str,
    tolerance: float,
    wide: bool,
    run: Callable[[nn.Module, Tensor], Tensor] = lambda layer, x_BLD: layer(x_BLD)[0],
) -> None:
    """A whole layer of fla: its output, and the gradients of its input and of every weight."""
    parameters = dict(mixer.named_parameters())
    assert sorted(names.values()) == sorted(parameters)
    x_PBLD = inputs(1, ROWS, LENGTH, WIDTH, dtype=dtype_of(wide)).requires_grad_()
    x_BLD = x_PBLD.detach()[0].clone().requires_grad_()
    weights = inputs(ROWS, LENGTH, WIDTH, dtype=dtype_of(wide), seed=2)
    with without_kernels(wide):
        layer = make().to(dtype_of(wide))
        layer.load_state_dict(
            {theirs: as_theirs(parameters[key].detach()[0]) for theirs, key in names.items()}
        )
        y_BLD = run(layer, x_BLD)
        (y_BLD * weights).sum().backward()
    y_PBLD = mixer(x_PBLD)
    (y_PBLD[0] * weights).sum().backward()
    theirs = dict(layer.named_parameters())
    agree(mixer.spec.name, against, [y_PBLD[0].detach()], [y_BLD.detach()], tolerance)
    found = [x_PBLD.grad[0], *(as_theirs(parameters[key].grad[0]) for key in names.values())]
    agree(
        mixer.spec.name,
        against,
        found,
        [x_BLD.grad, *(theirs[key].grad for key in names)],
        tolerance,
        kind="gradients",
    )


# ---- linear attention ----


@widths
@two_numbers_of_heads
@pytest.mark.parametrize(
    ("feature_map", "theirs"), [("elu+1", "elu"), ("relu", "relu"), ("identity", "identity")]
)
def test_linear_attention_with_a_norm_is_that_of_fla(
    agree, feature_map, theirs, heads, wide, tolerance
):
    mixer = ours("linear_attention", wide, heads=heads, feature_map=feature_map, normaliser="rms")
    compare(
        agree,
        mixer,
        lambda: LinearAttention(hidden_size=WIDTH, num_heads=heads, feature_map=theirs),
        {**ATTENTION, "norm.weight": "norm.weight"},
        label("fla LinearAttention with a norm", wide),
        tolerance,
        wide,
    )


@two_numbers_of_heads
@pytest.mark.parametrize(("feature_map", "theirs"), [("elu+1", "elu"), ("relu", "relu")])
@pytest.mark.parametrize(
    ("wide", "tolerance"), [(False, ROUNDED), (True, 1e-7)], ids=["float32", "float64"]
)
def test_linear_attention_with_a_sum_is_that_of_fla(
    agree, feature_map, theirs, heads, wide, tolerance
):
    """They add 1e-10 to the sum, and relu's sums are as small as 0.01 here:
    hence the wider tolerance in float64.
    """
    mixer = ours("linear_attention", wide, heads=heads, feature_map=feature_map)
    compare(
        agree,
        mixer,
        lambda: LinearAttention(
            hidden_size=WIDTH,
            num_heads=heads,
            feature_map=theirs,
            output_norm="identity",
            do_feature_map_norm=True,
        ),
        ATTENTION,
        label("fla LinearAttention with a sum", wide),
        tolerance,
        wide,
    )


def test_linear_attention_is_the_chunked_one_of_fla(agree):
    """In float64 as it stands, for lengths that are multiples of 64;
    the norm and the projections are ours here.
    """
    mixer = ours(
        "linear_attention", True, length=128, heads=2, feature_map="identity", normaliser="rms"
    )
    x_PBLD = inputs(1, ROWS, 128, WIDTH, dtype=torch.float64).requires_grad_()
    q_PBHLD, k_PBHLD, v_PBHLD = mixer._project(x_PBLD)
    q_BLHD, k_BLHD, v_BLHD = (part[0].transpose(1, 2) for part in (q_PBHLD, k_PBHLD, v_PBHLD))
    o_BLHD = naive_chunk_linear_attn(q_BLHD, k_BLHD, v_BLHD, scale=1.0)
    theirs = mixer._finish(o_BLHD.transpose(1, 2)[None])
    tensors = [x_PBLD, *mixer.parameters()]
    against = "fla.ops.linear_attn naive chunk, float64"
    agree("linear_attention", against, [mixer(x_PBLD).detach()], [theirs.detach()], EXACT)
    found, wanted = (
        torch.autograd.grad(y.square().sum(), tensors) for y in (mixer(x_PBLD), theirs)
    )
    agree("linear_attention", against, found, wanted, EXACT, kind="gradients")


# ---- Based ----


@pytest.mark.filterwarnings(
    "ignore:torch.utils.checkpoint. the use_reentrant parameter:UserWarning"
)
@two_numbers_of_heads
def test_based_is_that_of_fla(agree, heads):
    """Its reference multiplies the features out, with an eps of 1e-12, and casts nothing."""
    compare(
        agree,
        ours("based", True, heads=heads),
        lambda: BasedLinearAttention(
            hidden_size=WIDTH, feature_dim=8, num_heads=heads, num_key_value_heads=heads
        ),
        ATTENTION,
        "fla BasedLinearAttention.forward_reference, float64",
        1e-11,
        True,
        run=lambda layer, x_BLD: layer.forward_reference(x_BLD),
    )


def test_based_is_the_parallel_form_of_fla(agree):
    """Their eps of 1e-6 is left out by taking the sums as the output for values of one."""
    mixer = ours("based", True, heads=2)
    x_PBLD = inputs(1, ROWS, LENGTH, WIDTH, dtype=torch.float64).requires_grad_()
    q, k, v = mixer._project(x_PBLD)
    sums = naive_parallel_based(q, k, torch.ones_like(v), use_norm=False)
    theirs = mixer._finish(naive_parallel_based(q, k, v, use_norm=False) / sums)
    tensors = [x_PBLD, *mixer.parameters()]
    against = "fla.ops.based naive parallel, float64"
    agree("based", against, [mixer(x_PBLD).detach()], [theirs.detach()], EXACT)
    found, wanted = (
        torch.autograd.grad(y.square().sum(), tensors) for y in (mixer(x_PBLD), theirs)
    )
    agree("based", against, found, wanted, EXACT, kind="gradients")


# ---- RetNet ----


@widths
@two_numbers_of_heads
def test_retnet_is_that_of_fla(agree, heads, wide, tolerance):
    compare(
        agree,
        ours("retnet", wide, heads=heads),
        lambda: MultiScaleRetention(hidden_size=WIDTH, num_heads=heads, fuse_norm=False),
        GATED,
        label("fla MultiScaleRetention", wide),
        tolerance,
        wide,
    )


@widths
def test_retnet_is_simple_gated_linear_attention(agree, wide, tolerance):
    """With one constant decay per head; rotation, norm and projections are ours here."""
    mixer = ours("retnet", wide, heads=2)
    x_PBLD = inputs(1, ROWS, LENGTH, WIDTH, dtype=dtype_of(wide)).requires_grad_()
    q, k, v = mixer._project(x_PBLD)
    q_BLHD, k_BLHD, v_BLHE = (part[0].transpose(1, 2) for part in (rotate(q), rotate(k), v))
    log_gamma_H = torch.tensor([1 - 2.0**-5, 1 - 2.0**-6], dtype=torch.float64).log()
    with without_kernels(wide):
        o_BLHE, _ = naive_recurrent_simple_gla(
            q_BLHD, k_BLHD, v_BLHE, log_gamma_H.expand(ROWS, LENGTH, 2), scale=1.0
        )
    theirs = mixer._finish(o_BLHE.transpose(1, 2)[None], x_PBLD)
    tensors = [x_PBLD, *mixer.parameters()]
    against = label("fla.ops.simple_gla naive recurrent", wide)
    agree("retnet", against, [mixer(x_PBLD).detach()], [theirs.detach()], tolerance)
    found, wanted = (
        torch.autograd.grad(y.square().sum(), tensors) for y in (mixer(x_PBLD), theirs)
    )
    agree("retnet", against, found, wanted, tolerance, kind="gradients")


# ---- GLA ----


@widths
@two_numbers_of_heads
def test_gla_is_that_of_fla(agree, heads, wide, tolerance):
    compare(
        agree,
        ours("gla", wide, heads=heads),
        lambda: GatedLinearAttention(hidden_size=WIDTH, num_heads=heads, fuse_norm=False),
        {**GATED, **LOW_RANK},
        label("fla GatedLinearAttention", wide),
        tolerance,
        wide,
    )


@widths
@pytest.mark.parametrize("strength", [0.1, 5.0])
def test_decayed_scores_are_those_of_fla(agree, strength, wide, tolerance):
    """Decays from 0.9 to e^-5 per step and channel,
    which the split into two running products could not represent.
    """
    q, k, v, gate = (
        inputs(ROWS, 2, LENGTH, 7, dtype=dtype_of(wide), seed=seed).requires_grad_()
        for seed in range(4)
    )
    log_decay = -strength * gate.square()
    found = decayed_scores(q * 7**-0.5, k, log_decay) @ v
    with without_kernels(wide):
        wanted = naive_recurrent_gla(*(x.transpose(1, 2) for x in (q, k, v, log_decay)))[
            0
        ].transpose(1, 2)
    against = label("fla.ops.gla naive recurrent", wide)
    agree("gla", against, [found.detach()], [wanted.detach()], tolerance)
    slopes = [
        torch.autograd.grad(y.square().sum(), [q, k, v, gate], retain_graph=True)
        for y in (found, wanted)
    ]
    agree("gla", against, *slopes, tolerance, kind="gradients")
