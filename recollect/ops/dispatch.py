"""Which form of an operation runs: Triton's kernel on a GPU, numba's on a CPU, else the plain one.

Asked by the operations alone, each in the `__init__.py` of its folder. RECOLLECT_KERNELS=off, or
`with kernels_off():`, takes the plain form everywhere.
"""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Literal

import torch
from torch import Tensor

VARIABLE = "RECOLLECT_KERNELS"
_allowed = True


def use_triton(*tensors: Tensor) -> bool:
    """Whether a Triton kernel runs on these tensors; never in float64, kernels add in float32."""
    suited = all(tensor.is_cuda and tensor.dtype != torch.float64 for tensor in tensors)
    return suited and has_triton() and are_kernels_on()


def use_numba(*tensors: Tensor) -> bool:
    """Whether a function compiled for this CPU runs on these tensors; those are in float32."""
    suited = all(
        tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors
    )
    return suited and has_numba() and are_kernels_on()


def are_kernels_on() -> bool:
    return _allowed and os.environ.get(VARIABLE) != "off"


@contextmanager
def kernels_off() -> Iterator[None]:
    """Plain operations inside, whatever the device."""
    global _allowed
    before, _allowed = _allowed, False
    try:
        yield
    finally:
        _allowed = before


def product_precision(exact: Literal["ieee", "tf32x3"]) -> str:
    """How a kernel multiplies float32 numbers: in tf32, or `exact` where PyTorch is asked to be.

    "ieee" is on the plain units; three products of tf32 parts ("tf32x3") lack its last digit or
    two, and need fewer registers.
    """
    return exact if torch.get_float32_matmul_precision() == "highest" else "tf32"


@cache
def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


@cache
def has_numba() -> bool:
    """False too on a Python or with a NumPy that is newer than numba knows."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True
