"""Kernels against their plain references. Without a GPU they run through Triton's interpreter: the same code, slowly.

The interpreter is chosen when a kernel's module is first imported, so the variable is set before any of them is.
"""

import os
from collections.abc import Iterator

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture
def exact_products() -> Iterator[None]:
    """Matrix products in full float32, on a GPU too."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)
