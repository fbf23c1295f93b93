"""AdamW's kernel against the plain update, step after step."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from recollect.ops.adamw import adamw_ as plain_

kernel = pytest.importorskip("recollect.ops.adamw.triton_kernel", reason="Triton is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8

# the interpreter computes with NumPy, which warns of NaN
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(autouse=True)
def _plain_is_plain(monkeypatch):
    monkeypatch.setenv("RECOLLECT_KERNELS", "off")  # on a GPU too


def cases() -> list[tuple[int, ...]]:
    small = [(1, 1), (3, 7), (3, 5, 17), (1, 65), (2, 3, 1000)]
    return small + (
        [(64, 8192, 64), (16, 512, 2048), (128, 64), (3, 8191, 65)] if DEVICE == "cuda" else []
    )


def numbers(population: int, step: int, clipped: bool, dtype: torch.dtype) -> dict[str, Any]:
    rate_P = torch.logspace(-4, -1, population, dtype=dtype, device=DEVICE)
    return {
        "keep_P": 1 - rate_P * torch.linspace(0, 0.5, population, dtype=dtype, device=DEVICE),
        "step_P": rate_P / (1 - BETA1 ** (step + 1)),
        "root": torch.full(
            (), math.sqrt(1 - BETA2 ** (step + 1)), dtype=torch.float64, device=DEVICE
        ),
        "shrink_P": torch.linspace(0.1, 1, population, dtype=dtype, device=DEVICE)
        if clipped
        else None,
        "beta1": BETA1,
        "beta2": BETA2,
        "eps": EPS,
    }


def gradients(shape: tuple[int, ...], steps: int) -> list[Tensor]:
    """Of all sizes, zeros among them."""
    generator = torch.Generator().manual_seed(2)
    scales = [10.0 ** (3 - 2 * (step % 6)) * (step % 5 != 3) for step in range(steps)]
    return [(torch.randn(shape, generator=generator) * scale).to(DEVICE) for scale in scales]


def after(
    update_,
    shape: tuple[int, ...],
    grads: list[Tensor],
    *,
    clipped: bool = False,
    dtype: torch.dtype = torch.float32,
) -> list[Tensor]:
    parameter = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(DEVICE, dtype)
    first, second = torch.zeros_like(parameter), torch.zeros_like(parameter)
    for step, gradient in enumerate(grads):
        given = gradient.to(dtype)
        update_(parameter, given, first, second, **numbers(shape[0], step, clipped, dtype))
        # the gradient is only read
        assert torch.equal(given, gradient.to(dtype)) or gradient.isnan().any()
    return [parameter, first, second]


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("shape", cases(), ids=str)
def test_twelve_steps_are_the_plain_ones(shape, clipped):
    grads = gradients(shape, 12)
    wanted = after(plain_, shape, grads, clipped=clipped, dtype=torch.float64)
    for one, other in zip(after(kernel.adamw_, shape, grads, clipped=clipped), wanted, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(
            one.double(), other, rtol=5e-6, atol=2e-6 * float(other.abs().max())
        )


def test_gradients_near_the_smallest_whose_square_is_a_number():
    shape = (2, 9)
    grads = [torch.full(shape, 1e-17, device=DEVICE)]
    wanted, found = (after(update_, shape, grads) for update_ in (plain_, kernel.adamw_))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=0)


def test_a_gradient_whose_square_overflows_does_not_move_it():
    shape = (2, 9)
    grads = [torch.full(shape, 1e25, device=DEVICE)]
    for one, other in zip(
        after(kernel.adamw_, shape, grads), after(plain_, shape, grads), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_members_alone_together_and_beside_a_broken_one():
    shape, grads = (3, 5, 17), gradients((3, 5, 17), 5)
    together = after(kernel.adamw_, shape, grads, clipped=True)
    parameter, first, second = (torch.zeros(1, 5, 17, device=DEVICE) for _ in range(3))
    parameter.copy_(torch.randn(shape, generator=torch.Generator().manual_seed(1))[2:])
    for step, gradient in enumerate(grads):
        own = {
            name: value[2:] if name.endswith("_P") else value
            for name, value in numbers(3, step, True, torch.float32).items()
        }
        kernel.adamw_(parameter, gradient[2:], first, second, **own)
    for one, other in zip((parameter, first, second), together, strict=True):
        assert torch.equal(one, other[2:])
    for gradient in grads:
        gradient[1] = float("nan")
    for one, other in zip(after(kernel.adamw_, shape, grads, clipped=True), together, strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])
        assert one[1].isnan().all()


def test_a_strided_gradient_and_a_strided_parameter():
    shape, grads = (2, 5, 7), gradients((2, 5, 7), 3)
    strided = [gradient.mT.contiguous().mT for gradient in grads]
    for one, other in zip(
        after(kernel.adamw_, shape, strided), after(kernel.adamw_, shape, grads), strict=True
    ):
        assert torch.equal(one, other)
    first, second = torch.zeros(2, 7, 5, device=DEVICE), torch.zeros(2, 7, 5, device=DEVICE)
    with pytest.raises(ValueError, match="must be contiguous"):
        kernel.adamw_(
            torch.zeros(shape, device=DEVICE).mT,
            grads[0].mT,
            first,
            second,
            **numbers(2, 0, False, torch.float32),
        )
