"""When a kernel stands in for the plain operation beside it, unless switched off: on a GPU one of Triton's, on a CPU a function
that numba compiles; each where its compiler is installed.

RECOLLECT_KERNELS=off takes the plain operations everywhere, to compare with.
"""

import importlib.util
import os
from functools import cache
from typing import Literal

import torch
from torch import Tensor


def use_kernel(*tensors: Tensor) -> bool:
    """Whether an operation on these tensors should run as a kernel; in float64 never, kernels add up in float32."""
    suited = all(tensor.is_cuda and tensor.dtype != torch.float64 for tensor in tensors)
    return suited and installed() and os.environ.get("RECOLLECT_KERNELS") != "off"


def use_numba(*tensors: Tensor) -> bool:
    """Whether an operation on these tensors should run as a function compiled for this CPU; those are written for float32."""
    suited = all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors)
    return suited and numba_works() and os.environ.get("RECOLLECT_KERNELS") != "off"


def product_precision(exact: Literal["ieee", "tf32x3"]) -> str:
    """How a kernel multiplies float32 numbers: in tf32, or `exact` where PyTorch's own products are asked to be.

    "ieee" is on the plain units; three products of tf32 parts ("tf32x3") lack its last digit or two, and need fewer registers.
    """
    return exact if torch.get_float32_matmul_precision() == "highest" else "tf32"


@cache
def installed() -> bool:
    return importlib.util.find_spec("triton") is not None


@cache
def numba_works() -> bool:
    """Not on a Python or with a NumPy that is newer than it knows."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True
