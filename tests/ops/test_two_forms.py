"""Operations that have two forms in PyTorch itself, one of them for GPUs or for a few positions:
the forms agree, outputs and gradients, in float64.
"""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops import block_heads, few_columns, linear_parts
from recollect.ops.block_diagonal import dense
from recollect.ops.block_diagonal import plain as blocks
from recollect.ops.block_heads import composed
from recollect.ops.layout import at_positions, merge_heads, split_heads
from recollect.ops.matrix_memory import by_gates as memory_by_gates
from recollect.ops.matrix_memory import plain as memory
from recollect.ops.retention import by_gates as retention_by_gates
from recollect.ops.retention import plain as retention
from recollect.ops.state_space_dual import by_gates as dual_by_gates
from recollect.ops.state_space_dual import plain as dual

P, B, L, H, D, N = 2, 3, 9, 2, 4, 5
WHERE_BK = torch.tensor([[8, 3], [0, 0], [5, 8]])
Operation = Callable[..., Tensor | tuple[Tensor, ...]]


def drawn(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def outcome(operation: Operation, arguments: list[Tensor]) -> list[Tensor]:
    """The outputs and all gradients."""
    leaves = [x.detach().requires_grad_() for x in arguments]
    found = operation(*leaves)
    outputs = (found,) if isinstance(found, Tensor) else found
    weights = [torch.cos(torch.arange(y.numel(), dtype=y.dtype)).view_as(y) for y in outputs]
    return [*outputs, *torch.autograd.grad(outputs, leaves, weights)]


def assert_same(one: Operation, other: Operation, arguments: list[Tensor]) -> None:
    for x, y in zip(outcome(one, arguments), outcome(other, arguments), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-10, atol=1e-11)


def asked(x_PBHLE: Tensor) -> Tensor:
    """The rows at WHERE_BK, (P, B, H, K, E)."""
    return split_heads(at_positions(merge_heads(x_PBHLE), WHERE_BK), x_PBHLE.shape[2])


@pytest.mark.parametrize("where_BK", [None, WHERE_BK], ids=["everywhere", "at a few positions"])
def test_a_state_space_by_gates(where_BK):
    c, b, v, raw, g, skip = drawn(
        (P, B, L, N), (P, B, L, N), (P, B, H, L, D), (P, B, H, L), (P, B, H, L), (P, H)
    )

    def whole(*arguments: Tensor) -> Tensor:
        y_PBHLV = dual.state_space_dual(*arguments)
        return y_PBHLV if where_BK is None else asked(y_PBHLV)

    def rows(*arguments: Tensor) -> Tensor:
        return dual_by_gates.state_space_dual(*arguments, where_BK)

    assert_same(whole, rows, [c, b, v, F.softplus(raw), -F.softplus(g), skip])


@pytest.mark.parametrize("where_BK", [None, WHERE_BK], ids=["everywhere", "at a few positions"])
def test_retention_by_gates(where_BK):
    def whole(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        o_PBHLE = retention.retention(q, k, v)
        return o_PBHLE if where_BK is None else asked(o_PBHLE)

    def rows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q_PBHKD = q if where_BK is None else asked(q)
        return retention_by_gates.retention(q_PBHKD, k, v, where_BK)

    assert_same(whole, rows, drawn(*[(P, B, H, L, D)] * 2, (P, B, H, L, N)))


@pytest.mark.parametrize("where_BK", [None, WHERE_BK], ids=["everywhere", "at a few positions"])
def test_a_matrix_memory_by_gates(where_BK):
    def whole(q: Tensor, k: Tensor, v: Tensor, i: Tensor, f: Tensor) -> Tensor:
        h_PBHLD = memory.matrix_memory(q, k, v, i, f)
        return h_PBHLD if where_BK is None else asked(h_PBHLD)

    def rows(q: Tensor, k: Tensor, v: Tensor, i: Tensor, f: Tensor) -> Tensor:
        q_PBHKD = q if where_BK is None else asked(q)
        sum_PBHKD, divisor = memory_by_gates.matrix_memory(q_PBHKD, k, v, i, f, where_BK)
        return sum_PBHKD / divisor[..., None]

    assert_same(whole, rows, drawn(*[(P, B, H, L, D)] * 3, *[(P, B, H, L)] * 2))


def test_a_block_diagonal_matrix_with_its_zeros():
    assert_same(blocks.block_diagonal, dense.block_diagonal, drawn((P, B, L, 12), (P, 3, D, D)))


@pytest.mark.parametrize("where_BK", [None, WHERE_BK], ids=["everywhere", "at a few positions"])
def test_heads_whose_gates_are_composed(where_BK):
    def composed_heads(*arguments: Tensor) -> tuple[Tensor, ...]:
        c, u, query, key, value, gate_PFG, bias_PG = arguments
        gates = composed.compose_gates(query, key, value, gate_PFG)
        scale = (c.shape[3] // H) ** -0.5
        *qkv, gates_PBLG, c_PBKE = composed.block_heads(
            c, u, query, key, value, *gates, scale, where_BK
        )
        i, f = (gates_PBLG + bias_PG[:, None, None]).chunk(2, dim=-1)
        return *(x.unflatten(-1, (H, -1)) for x in qkv), i, f, c_PBKE

    def plain_heads(*arguments: Tensor) -> tuple[Tensor, ...]:
        *others, c_PBKE = block_heads.block_heads(*arguments, where_BK=where_BK)
        return *others, c_PBKE * 1  # an output that is an input has no gradient of its own

    shapes = [(P, B, L, 12)] * 2 + [(P, 3, D, D)] * 3 + [(P, 36, 2 * H), (P, 2 * H)]
    assert_same(plain_heads, composed_heads, drawn(*shapes))


def test_the_parts_of_a_projection_one_by_one(monkeypatch):
    def joined(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        return linear_parts.linear_parts(x, weight, (7, 1, 3))

    def apart(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        with monkeypatch.context() as patch:
            patch.setattr(linear_parts, "use_triton", lambda *tensors: True)
            return linear_parts.linear_parts(x, weight, (7, 1, 3))

    assert_same(joined, apart, drawn((P, B, L, D), (P, D, 11)))


def test_projections_to_few_columns_together(monkeypatch):
    def one_by_one(x: Tensor, first: Tensor, second: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        return few_columns.project_per_head(x, [(first, None), (second, bias)])

    def together(*arguments: Tensor) -> tuple[Tensor, ...]:
        with monkeypatch.context() as patch:
            patch.setattr(few_columns, "use_triton", lambda *tensors: True)
            return one_by_one(*arguments)

    assert_same(one_by_one, together, drawn((P, B, L, D), (P, D, 2), (P, D, 3), (P, 3)))
