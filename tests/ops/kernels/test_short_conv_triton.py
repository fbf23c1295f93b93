"""The short convolution's kernels against the plain operation in float64:
output, activation and all gradients.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.short_conv import short_conv, triton_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}


def cases() -> list[tuple]:
    """Members, rows, length, channels, taps, ahead, bias, activation."""
    small = [
        (1, 1, 1, 1, 1, 0, True, None),
        (2, 3, 17, 7, 4, 0, True, "silu"),
        (1, 33, 2, 17, 3, 0, False, None),
        (3, 1, 17, 65, 3, 1, True, "silu"),
        (1, 5, 31, 64, 4, 1, True, None),
        # several blocks of rows, the last one short; nothing but the future
        (
            1,
            5,
            33,
            5,
            8,
            7,
            False,
            "silu",
        ),
        (1, 2, 5, 3, 9, 4, True, "silu"),  # taps in a loop, most of them outside the sequence
        (1, 2, 12, 3, 10, 0, False, None),
    ]
    large = [
        (16, 512, 64, 128, 4, 0, True, "silu"),
        (4, 256, 256, 1024, 4, 0, True, "silu"),
        (8, 256, 256, 384, 3, 0, True, None),
    ]
    return small + (large if DEVICE == "cuda" else [])


def inputs(
    members: int, rows: int, length: int, channels: int, taps: int, bias: bool, dtype=torch.float32
) -> list:
    """x, dy, weight, bias; x is the middle of a wider tensor, dy of a longer one."""
    torch.manual_seed(length)
    wide = torch.randn(members, rows, length, channels + 5, device=DEVICE).to(dtype)
    dy = torch.randn(members, rows, length + 2, channels, device=DEVICE).to(dtype)[:, :, 1:-1]
    weight = torch.randn(members, taps, channels, device=DEVICE)
    return [
        wide[..., 2:-3],
        dy,
        weight,
        torch.randn(members, channels, device=DEVICE) if bias else None,
    ]


def results(
    function, x: Tensor, dy: Tensor, weight: Tensor, bias: Tensor | None, *options
) -> list[Tensor]:
    arguments = [x.detach().requires_grad_(), weight.clone().requires_grad_()]
    if bias is not None:
        arguments.append(bias.clone().requires_grad_())
    y = function(*arguments[:2], arguments[2] if bias is not None else None, *options)
    return [y.detach(), *torch.autograd.grad(y, arguments, dy)]


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("case", cases(), ids=str)
def test_it_is_the_plain_convolution(case, dtype, monkeypatch):
    *shape, ahead, bias, activation = case
    arguments = inputs(*shape, bias, dtype)
    found = results(triton_kernel.short_conv, *arguments, ahead, activation)
    monkeypatch.setenv("RECOLLECT_KERNELS", "off")
    wanted = results(
        short_conv, *(None if x is None else x.double() for x in arguments), ahead, activation
    )
    for name, one, other in zip(("y", "dx", "dweight", "dbias"), found, wanted, strict=False):
        assert one.dtype == (torch.float32 if name in ("dweight", "dbias") else dtype)
        assert one.shape == other.shape
        assert (one - other).abs().max() <= TOLERANCE[dtype] * other.abs().max() + 1e-30, name


def test_any_strides_are_read_right():
    x, dy, weight, bias = inputs(2, 3, 6, 5, 3, True)
    views = (
        x.transpose(1, 2).contiguous().transpose(1, 2),
        dy.transpose(2, 3).contiguous().transpose(2, 3),
    )
    options = weight, bias, 0, "silu"
    for one, other in zip(
        results(triton_kernel.short_conv, x, dy, *options),
        results(triton_kernel.short_conv, *views, *options),
        strict=True,
    ):
        assert torch.equal(one, other)


def test_a_member_is_the_same_alone_and_beside_one_that_is_not_a_number():
    arguments = inputs(3, 2, 17, 7, 4, True)
    broken = [x.clone() for x in arguments]
    for x in broken:
        x[1] = float("nan")
    together = results(triton_kernel.short_conv, *broken, 0, "silu")
    for p in (0, 2):
        alone = results(triton_kernel.short_conv, *(x[p : p + 1] for x in arguments), 0, "silu")
        for one, other in zip(alone, together, strict=True):
            assert torch.equal(one[0], other[p])
    assert all(x[1].isnan().any() for x in together)


def test_the_plain_activation_follows_the_plain_convolution():
    x, dy, weight, bias = (x.cpu() for x in inputs(2, 3, 8, 5, 4, True))
    apart = results(lambda *options: F.silu(short_conv(*options)), x, dy, weight, bias, 1)
    for one, other in zip(results(short_conv, x, dy, weight, bias, 1, "silu"), apart, strict=True):
        assert torch.equal(one, other)
