"""How kernels are compared: outputs and all gradients of one function beside those of another,
usually in float64.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def weights(y: Tensor) -> Tensor:
    """Of an output's elements in the sum that is differentiated:
    many values, no pattern of a tile's size.
    """
    return torch.cos(torch.arange(y.numel(), device=y.device) % 1009).view_as(y).to(y.dtype)


def outcome(
    function: Callable[..., Tensor | tuple[Tensor, ...]],
    tensors: Sequence[Tensor],
    dtypes: Sequence[torch.dtype] | torch.dtype | None = None,
) -> list[Tensor]:
    """The outputs, then the gradients of all `tensors`, which are cast to `dtypes` first,
    or left as they are.
    """
    if dtypes is None or isinstance(dtypes, torch.dtype):
        dtypes = [dtypes or x.dtype for x in tensors]
    leaves = [
        x.to(dtype).detach().requires_grad_() for x, dtype in zip(tensors, dtypes, strict=True)
    ]
    found = function(*leaves)
    outputs = (found,) if isinstance(found, Tensor) else found
    return [
        *(y.detach() for y in outputs),
        *torch.autograd.grad(outputs, leaves, [weights(y) for y in outputs]),
    ]


def assert_close(
    found: Sequence[Tensor], wanted: Sequence[Tensor], tolerance: float, least: float = 1e-6
) -> None:
    """Each tensor to a share of its largest number, or of `least` where all are smaller."""
    for index, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.shape == other.shape, index
        error = float((one.double() - other).abs().max() / other.abs().max().clamp(min=least))
        assert error < tolerance, f"tensor {index}: {error:.2e}"
