"""The precision of matrix products on a GPU, set for a block. A CPU has only one precision."""

import contextlib
from collections.abc import Iterator

import torch

from recollect.spec.train import Precision


@contextlib.contextmanager
def matmul_precision(device: torch.device, precision: Precision) -> Iterator[None]:
    """Compute float32 products inside the block exactly for fp32 runs, and in TF32 for others.

    The setting is global to the process, so it is restored at the end. It applies to backward
    passes too, so they belong inside the block.
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
    """Compute products of bf16 runs in bfloat16 inside the block; for forward passes only."""
    if device.type == "cpu":
        yield
        return
    # No cache of cast weights: a recording must cast them again at every replay.
    with torch.autocast(
        device.type, torch.bfloat16, enabled=precision == "bf16", cache_enabled=False
    ):
        yield
