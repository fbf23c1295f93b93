"""The delta rule, with decay and without, against fla's and transformers' plain rules."""

import inspect
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from fla.ops.delta_rule.naive import (
    delta_rule_chunkwise,
    delta_rule_parallel,
    delta_rule_recurrence,
)
from fla.ops.gated_delta_rule.naive import (
    naive_chunk_gated_delta_rule,
    naive_recurrent_gated_delta_rule,
)
from torch import Tensor
from transformers.models.qwen3_5 import modeling_qwen3_5
from transformers.models.qwen3_next import modeling_qwen3_next
from zoo import inputs

from recollect.ops.delta_rule import delta_rule

DOUBLE, LENGTH, HEADS, KEYS, VALUES, WIDTH = torch.float64, 128, 2, 8, 16, 16
# All peers but two keep a float32 state whatever they are given; theirs is the rounding that these
# tolerances allow for.
SINGLE_OUTPUTS, SINGLE_GRADIENTS = 2e-6, 5e-6


def drawn(dtype: torch.dtype, decay: bool) -> list[Tensor]:
    """q, k, v, beta and perhaps g as the rule takes them, (B, H, L, ...)."""
    q, k = (
        F.normalize(inputs(2, HEADS, LENGTH, KEYS, dtype=dtype, seed=seed), dim=-1)
        for seed in (1, 2)
    )
    v, beta = (
        inputs(2, HEADS, LENGTH, VALUES, dtype=dtype, seed=3),
        inputs(2, HEADS, LENGTH, dtype=dtype, seed=4).sigmoid(),
    )
    return (
        [q, k, v, beta, -inputs(2, HEADS, LENGTH, dtype=dtype, seed=5).exp() * 0.1]
        if decay
        else [q, k, v, beta]
    )


def with_gradients(
    function: Callable[..., Tensor], arguments: list[Tensor]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    leaves = [x.clone().requires_grad_() for x in arguments]
    o = function(*leaves)
    gradients = torch.autograd.grad(
        (o * torch.cos(torch.arange(o.numel(), dtype=o.dtype)).view_as(o)).sum(), leaves
    )
    return o.detach(), gradients


def scaled(q: Tensor, *others: Tensor) -> Tensor:
    return delta_rule(q * KEYS**-0.5, *others)


DELTA_RULES = {
    "delta_rule_chunkwise, float64": (delta_rule_chunkwise, DOUBLE),
    "delta_rule_parallel, float64": (delta_rule_parallel, DOUBLE),
    "delta_rule_recurrence, float32": (delta_rule_recurrence, torch.float32),
}


@pytest.mark.parametrize("name", DELTA_RULES)
def test_fla_delta_rule(agree, name):
    rule, dtype = DELTA_RULES[name]
    arguments = drawn(dtype, decay=False)
    ours, our_gradients = with_gradients(scaled, arguments)
    theirs, their_gradients = with_gradients(lambda *tensors: rule(*tensors)[0], arguments)
    outputs, gradients = (1e-12, 1e-12) if dtype == DOUBLE else (SINGLE_OUTPUTS, SINGLE_GRADIENTS)
    agree("delta_net", f"fla.ops.delta_rule.naive.{name}", [ours], [theirs], outputs)
    agree(
        "delta_net",
        f"fla.ops.delta_rule.naive.{name}",
        our_gradients,
        their_gradients,
        gradients,
        kind="gradients",
    )


def test_fla_attention_matrix_of_the_delta_rule(agree):
    """Theirs acts on beta v, and is stored in float32."""
    q, k, v, beta = drawn(DOUBLE, decay=False)
    theirs = delta_rule_parallel(q, k, v, beta)[1].double() * beta[..., None, :]
    ours = scaled(q, k, torch.eye(LENGTH, dtype=DOUBLE).expand(2, HEADS, -1, -1), beta)
    agree(
        "delta_net",
        "fla.ops.delta_rule.naive.delta_rule_parallel (matrix), float32",
        [ours],
        [theirs],
        1e-6,
    )


def by_time(rule: Callable[..., tuple[Tensor, Tensor | None]]) -> Callable[..., Tensor]:
    """A rule whose tensors are (B, L, H, ...),
    with the order of its last two arguments left to their names.
    """

    def call(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor) -> Tensor:
        q, k, v, beta, g = (x.transpose(1, 2) for x in (q, k, v, beta, g))
        return rule(q, k, v, beta=beta, g=g)[0].transpose(1, 2)

    return call


GATED_RULES = {
    "fla.ops.gated_delta_rule.naive_recurrent_gated_delta_rule": naive_recurrent_gated_delta_rule,
    "fla.ops.gated_delta_rule.naive_chunk_gated_delta_rule": naive_chunk_gated_delta_rule,
    "transformers Qwen3-Next "
    "torch_chunk_gated_delta_rule": modeling_qwen3_next.torch_chunk_gated_delta_rule,
    "transformers Qwen3-Next "
    "torch_recurrent_gated_delta_rule": modeling_qwen3_next.torch_recurrent_gated_delta_rule,
    "transformers Qwen3.5 "
    "torch_chunk_gated_delta_rule": modeling_qwen3_5.torch_chunk_gated_delta_rule,
    "transformers Qwen3.5 "
    "torch_recurrent_gated_delta_rule": modeling_qwen3_5.torch_recurrent_gated_delta_rule,
}


@pytest.mark.parametrize("name", GATED_RULES)
def test_gated_delta_rule(agree, name):
    arguments = drawn(torch.float32, decay=True)
    plain = inspect.unwrap(
        GATED_RULES[name]
    )  # transformers puts fla's kernels in front, which need a GPU
    ours, our_gradients = with_gradients(scaled, arguments)
    theirs, their_gradients = with_gradients(by_time(plain), arguments)
    agree("gated_delta_net", f"{name}, float32", [ours], [theirs], SINGLE_OUTPUTS)
    agree(
        "gated_delta_net",
        f"{name}, float32",
        our_gradients,
        their_gradients,
        SINGLE_GRADIENTS,
        kind="gradients",
    )
