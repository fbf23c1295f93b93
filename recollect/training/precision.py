"""The precision of matrix products on a GPU, set for a while and restored. A CPU has one."""

import contextlib
from collections.abc import Iterator

import torch

from recollect.spec.train import Precision


@contextlib.contextmanager
def matmul_precision(device: torch.device, precision: Precision) -> Iterator[None]:
    """float32 products inside are exact for fp32 runs and TF32 for others.

    The setting is the process's, hence restored. It holds for backward passes too, which belong
    inside.
    """
    if device.type == "cpu":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextlib.contextmanager
def autocast(device: torch.device, precision: Precision) -> Iterator[None]:
    """bfloat16 products of bf16 runs; for forward passes alone."""
    if device.type == "cpu":
        yield
        return
    # No cache of cast weights: a recording must cast them anew at every replay.
    with torch.autocast(
        device.type, torch.bfloat16, enabled=precision == "bf16", cache_enabled=False
    ):
        yield
