"""The selective scan compiled by numba against the plain one in float64, at awkward shapes; and
what its bits depend on.
"""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.selective_scan import plain

pytest.importorskip("numba")

from recollect.ops.selective_scan import numba_kernel
from recollect.ops.selective_scan.numba_kernel import CHUNK, ROWS

Operation = Callable[..., Tensor]


def drawn(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(sum(map(sum, shapes)))
    return [torch.randn(shape, generator=generator) for shape in shapes]


def scan_inputs(P: int = 2, B: int = 3, L: int = CHUNK + 5, E: int = 6, N: int = 5) -> list[Tensor]:
    u, raw, a, b, c, skip = drawn(
        (P, B, L, E), (P, B, L, E), (P, E, N), (P, B, L, N), (P, B, L, N), (P, E)
    )
    return [u, 2 * raw - 2, -a.exp(), b, c, skip]


def results(operation: Operation, arguments: list[Tensor]) -> list[Tensor]:
    """The output and every gradient; the output's weights are the same for every member."""
    arguments = [x.detach().requires_grad_() for x in arguments]
    y = operation(*arguments)
    weight = torch.cos(torch.arange(y[0].numel(), dtype=y.dtype)).view_as(y[0]).expand_as(y)
    return [y.detach(), *torch.autograd.grad((y * weight).sum(), arguments)]


def assert_close(operation: Operation, reference: Operation, arguments: list[Tensor]) -> None:
    for one, other in zip(
        results(operation, arguments),
        results(reference, [x.double() for x in arguments]),
        strict=True,
    ):
        assert one.dtype == torch.float32
        scale = float(other.abs().max())
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=2e-6 * scale)


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"P": 1, "B": 1, "L": 1, "E": 1, "N": 1},
        {"L": CHUNK - 1, "E": 33},
        {"L": CHUNK, "N": 16},
        {"L": 3 * CHUNK + 5, "E": 128, "N": 16},
        {"B": ROWS + 1, "L": CHUNK + 1},
        {"B": 2 * ROWS, "L": 2},
    ],
    ids=str,
)
def test_scan_equals_the_plain_one(shape):
    assert_close(numba_kernel.scan, plain.scan, scan_inputs(**shape))


def test_arguments_of_any_size():
    """exp, softplus and its slope are our own:
    to the last bits over the whole range, quietly beyond it.
    """
    x = torch.cat(
        (torch.linspace(-100, 100, 4001), torch.tensor([0.0, 1e-30, -1e-30, 3e38, -3e38]))
    )
    raw = x.view(1, 1, 1, -1).requires_grad_()
    # One position from state 0 with B = C = 1: y is softplus(raw).
    ones, zeros, one = torch.ones_like(raw), torch.zeros(1, raw.numel()), torch.ones(1, 1, 1, 1)
    y = numba_kernel.scan(ones, raw, -torch.ones(1, raw.numel(), 1), one, one, zeros)
    torch.testing.assert_close(
        y.double(), F.softplus(raw.double(), threshold=1000), rtol=5e-7, atol=1e-36
    )
    (slope,) = torch.autograd.grad(y, raw, ones)
    torch.testing.assert_close(slope.double(), raw.double().sigmoid(), rtol=5e-7, atol=1e-36)


def test_strong_decay_stays_finite():
    """delta = 0.7 with sixteen rates forgets by exp(-11) a step;
    rates of 1e4 and an infinite one forget all.
    """
    u, _, _, b, c, skip = scan_inputs(P=1, B=1, L=200, E=8, N=16)
    a = -torch.arange(1.0, 17).repeat(1, 8, 1)
    a[0, 0] = -1e4
    arguments = [u, torch.zeros_like(u), a, b, c, skip]
    assert_close(numba_kernel.scan, plain.scan, arguments)
    a[0, 0] = -torch.inf
    assert numba_kernel.scan(*arguments).isfinite().all()


def test_a_member_has_the_same_bits_alone_and_at_any_place():
    arguments = scan_inputs(P=3, B=ROWS + 3, E=33)
    together = results(numba_kernel.scan, arguments)
    for member in range(3):
        alone = results(numba_kernel.scan, [x[member : member + 1].clone() for x in arguments])
        assert all(
            torch.equal(one[0], other[member]) for one, other in zip(alone, together, strict=True)
        )


def test_bits_do_not_depend_on_threads():
    arguments, before = scan_inputs(P=2, B=2 * ROWS + 3, E=33), torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(results(numba_kernel.scan, arguments))
    finally:
        torch.set_num_threads(before)
    for others in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], others, strict=True))


def test_members_do_not_see_each_other():
    """A NaN in any one argument of a member shows in its own output and nowhere else."""
    arguments = scan_inputs(P=3)
    clean = results(numba_kernel.scan, arguments)
    for place in range(len(arguments)):
        poisoned = [x.clone() for x in arguments]
        poisoned[place][1] = torch.nan
        found = results(numba_kernel.scan, poisoned)
        assert found[0][1].isnan().any()
        for one, other in zip(clean, found, strict=True):
            assert torch.equal(one[[0, 2]], other[[0, 2]])


def test_views_are_taken_as_they_are():
    """Mamba hands over slices of one product, whose rows are not contiguous;
    other strides work as well.
    """
    arguments = scan_inputs(E=8)
    slices = [torch.cat((x, x), dim=-1).split(x.shape[-1], dim=-1)[1] for x in arguments]
    turned = [x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in arguments]
    expanded = [x[:1].expand_as(x) for x in arguments]
    assert not slices[0].is_contiguous()
    for views in (slices, turned, expanded):
        expected = results(numba_kernel.scan, [x.contiguous() for x in views])
        assert all(
            torch.equal(one, other)
            for one, other in zip(results(numba_kernel.scan, views), expected, strict=True)
        )
