"""The MLP's kernel, GELU with a bias, against the plain operations in float64, and in the layer."""

import pytest
import torch
from torch import Tensor

from recollect.model.channel import MLP
from recollect.model.layers import initialise
from recollect.ops import mlp
from recollect.ops.mlp import plain, triton_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}  # of the largest value


def cases() -> list[tuple[int, ...]]:
    """(P, M, H): odd sizes, more than one block of rows, more channels than a program takes; on a
    GPU also real ones.
    """
    odd = [(1, 1, 1), (3, 5, 7), (3, 33, 17), (1, 5, 64), (3, 70, 3), (1, 3, 300), (1, 150, 2)]
    real = [(8, 512 * 64, 256), (16, 512 * 4, 256), (2, 256 * 256, 512), (2, 256 * 64, 2048)]
    return odd + real if DEVICE == "cuda" else odd


def made(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return (2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))).to(DEVICE, dtype)


def outcome(operation, x: Tensor, bias: Tensor, factor: Tensor) -> list[Tensor]:
    """The output, then the gradients of x and of the bias."""
    x, bias = x.detach().requires_grad_(), bias.detach().requires_grad_()
    y = operation(x, bias)
    return [y.detach(), *torch.autograd.grad(y, (x, bias), factor)]


def assert_as_in_double(x: Tensor, bias: Tensor, factor: Tensor) -> None:
    expected = outcome(plain.bias_gelu, x.double(), bias.double(), factor.double())
    found = outcome(triton_kernel.bias_gelu, x, bias, factor)
    assert [tensor.dtype for tensor in found] == [x.dtype, x.dtype, torch.float32]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.shape == theirs.shape
        bound = TOLERANCE[mine.dtype] * theirs.abs().max().clamp(min=1).item()
        assert (mine.double() - theirs).abs().max().item() <= bound


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", cases(), ids=str)
def test_it_is_the_plain_one(shape, dtype):
    assert_as_in_double(
        made(*shape, dtype=dtype),
        made(shape[0], shape[2], seed=1),
        made(*shape, seed=2, dtype=dtype),
    )


STRIDED = {
    "a slice of the channels": lambda: made(3, 5, 30)[..., 3:20],
    "channels not last in memory": lambda: made(3, 17, 5).transpose(1, 2),
    "every second row": lambda: made(3, 9, 17)[:, ::2],
    "one row for all": lambda: made(3, 1, 17).expand(3, 5, 17),
}


@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED)
def test_strides_do_not_matter(make):
    assert_as_in_double(make(), made(3, 17, seed=1), made(3, 5, 17, seed=2))
    assert_as_in_double(made(3, 5, 17, seed=2), made(3, 17, seed=1), make())


@pytest.mark.filterwarnings("ignore:overflow")  # numpy's, inside the interpreter
def test_far_from_zero_it_is_the_identity_or_nothing():
    x = torch.tensor([[[-1e30, -40.0, -20.0, 0.0, 20.0, 40.0, 1e30]]], device=DEVICE)
    y, dx, _ = outcome(
        triton_kernel.bias_gelu, x, torch.zeros(1, 7, device=DEVICE), torch.ones_like(x)
    )
    assert torch.equal(y, x.clamp(min=0))
    assert torch.equal(dx, torch.tensor([[[0, 0, 0, 0.5, 1, 1, 1]]], device=DEVICE))


@pytest.mark.parametrize("rows", [3, 70])
def test_a_member_alone_is_a_member_in_company(rows):
    tensors = [made(3, rows, 9), made(3, 9, seed=1), made(3, rows, 9, seed=2)]
    together = outcome(triton_kernel.bias_gelu, *tensors)
    for p in range(3):
        alone = outcome(triton_kernel.bias_gelu, *(tensor[p : p + 1] for tensor in tensors))
        assert all(
            torch.equal(mine[0], theirs[p]) for mine, theirs in zip(alone, together, strict=True)
        )


@pytest.mark.filterwarnings("ignore:invalid value")  # numpy's, inside the interpreter
def test_a_broken_member_breaks_no_other():
    x, bias, factor = made(3, 40, 9), made(3, 9, seed=1), made(3, 40, 9, seed=2)
    before = outcome(triton_kernel.bias_gelu, x, bias, factor)
    x[1] = float("nan")
    bias[1] = float("inf")
    after = outcome(triton_kernel.bias_gelu, x, bias, factor)
    for sound, broken in zip(before, after, strict=True):
        assert torch.equal(sound[[0, 2]], broken[[0, 2]])
    assert after[0][1].isnan().all()


def test_the_mlp_with_kernels_is_the_mlp_without(monkeypatch):
    layer = MLP(2, 6, 12, down_std=0.02)
    initialise(layer, [1, 2])
    layer.to(DEVICE)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += made(*parameter.shape, seed=3) / 4
    x, factor = made(2, 3, 5, 6).requires_grad_(), made(2, 3, 5, 6, seed=4)
    results = []
    for kernel in (False, True):
        monkeypatch.setattr(mlp, "use_triton", lambda x, kernel=kernel: kernel)
        value, shift_PD = layer.branch(x)
        y = value if shift_PD is None else value + shift_PD[:, None, None]
        results.append([y, *torch.autograd.grad(y, [x, *layer.parameters()], factor)])
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
