"""RWKV-4's mean of values whose weights decay with the distance; equations in plain.py."""

from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.wkv import plain
from recollect.ops.wkv.plain import wkv_step

__all__ = ["wkv", "wkv_step"]


def wkv(k_PBLD: Tensor, v_PBLD: Tensor, w_PD: Tensor, u_PD: Tensor) -> Tensor:
    """Return y_PBLD, differentiable in all four arguments; w <= 0."""
    if use_triton(k_PBLD, v_PBLD):
        from recollect.ops.wkv import triton_kernel

        return triton_kernel.wkv(k_PBLD, v_PBLD, w_PD, u_PD)
    return plain.wkv(k_PBLD, v_PBLD, w_PD, u_PD)
