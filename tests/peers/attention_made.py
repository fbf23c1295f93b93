"""Softmax attention beside a peer: outputs, gradients of the input and all weights.

A peer is called with parameters made from ours by differentiable reshaping, so its gradients come
back in our layout.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.mixers.attention.mixer import Attention

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
