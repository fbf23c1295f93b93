"""Choice of the form of an operation: Triton's kernel on a GPU, numba's on a CPU, else the plain
one.

Only the operations call it, each in the `__init__.py` of its folder. RECOLLECT_KERNELS=off, or
`with kernels_off():`, selects the plain form everywhere.
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
HOPPER_SHARED = 227 * 1024  # bytes
_allowed = True


def use_triton(*tensors: Tensor) -> bool:
    """Whether a Triton kernel runs on these tensors; never in float64: kernels add in float32."""
    suited = all(tensor.is_cuda and tensor.dtype != torch.float64 for tensor in tensors)
    return suited and has_triton() and are_kernels_on()


def use_numba(*tensors: Tensor) -> bool:
    """Whether a function compiled for this CPU runs on these tensors; it needs float32."""
    suited = all(
        tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors
    )
    return suited and has_numba() and are_kernels_on()


def are_kernels_on() -> bool:
    return _allowed and os.environ.get(VARIABLE) != "off"


@contextmanager
def kernels_off() -> Iterator[None]:
    """Use plain operations within the context, whatever the device."""
    global _allowed
    before, _allowed = _allowed, False
    try:
        yield
    finally:
        _allowed = before


def product_precision(exact: Literal["ieee", "tf32x3"]) -> str:
    """Return how a kernel multiplies float32 numbers: in tf32, or `exact` if PyTorch is set to be
    exact.

    "ieee" runs on the plain units; three products of tf32 parts ("tf32x3") lose its last digit or
    two, and need fewer registers.
    """
    return exact if torch.get_float32_matmul_precision() == "highest" else "tf32"


def shared_memory(like: Tensor) -> int:
    """Return the bytes of shared memory that one program of a kernel may use on this GPU.

    A kernel that needs more cannot start there. Without a GPU kernels are interpreted, as if there
    were one of Hopper's.
    """
    return _shared_memory(like.device) if like.is_cuda else HOPPER_SHARED


@cache
def _shared_memory(device: torch.device) -> int:
    about = torch.cuda.get_device_properties(device)
    return int(about.shared_memory_per_block_optin)  # type: ignore[attr-defined]  # not in stubs


@cache
def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


@cache
def has_numba() -> bool:
    """Whether numba can be imported; it cannot with a Python or a NumPy newer than it supports."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


# The cores of mixers (`core` of their options) that need a compiled form of this package: without
# one they are loops over time in Python. All others are a library's products, transforms and
# solves.
TRITON_CORES = frozenset({"selective scan", "scan", "recurrence"})
NUMBA_CORES = frozenset({"selective scan"})


def fast_form(core: str) -> str | None:
    """Return what computes a core fast on this machine, or None if it is a loop over time."""
    if core not in TRITON_CORES | NUMBA_CORES:
        return core
    if not are_kernels_on():
        return None
    if torch.cuda.is_available():
        return f"Triton {core}" if core in TRITON_CORES and has_triton() else None
    return f"numba {core}" if core in NUMBA_CORES and has_numba() else None
