"""When a Triton kernel stands in for the plain operation beside it: on a GPU, where Triton is installed, unless switched off.

RECOLLECT_KERNELS=off takes the plain operations everywhere, to compare with.
"""

import importlib.util
import os
from functools import cache

import torch
from torch import Tensor


def use_kernel(*tensors: Tensor) -> bool:
    """Whether an operation on these tensors should run as a kernel; in float64 never, kernels add up in float32."""
    suited = all(tensor.is_cuda and tensor.dtype != torch.float64 for tensor in tensors)
    return suited and installed() and os.environ.get("RECOLLECT_KERNELS") != "off"


@cache
def installed() -> bool:
    return importlib.util.find_spec("triton") is not None
