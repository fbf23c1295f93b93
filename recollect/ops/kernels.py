"""When a Triton kernel stands in for the plain operation beside it: on a GPU, where Triton is installed, unless switched off.

RECOLLECT_KERNELS=off takes the plain operations everywhere, to compare with.
"""

import importlib.util
import os
from functools import cache

from torch import Tensor


def use_kernel(*tensors: Tensor) -> bool:
    """Whether an operation on these tensors should run as a kernel."""
    return all(tensor.is_cuda for tensor in tensors) and installed() and os.environ.get("RECOLLECT_KERNELS") != "off"


@cache
def installed() -> bool:
    return importlib.util.find_spec("triton") is not None
