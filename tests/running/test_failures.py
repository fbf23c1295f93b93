"""What is stored as the reason of a failed run."""

import pytest
import torch

from recollect.running.failures import describe, is_out_of_memory


def test_the_kind_and_the_first_line():
    assert describe(ValueError("a\nb")) == "error: ValueError: a"
    assert describe(ValueError()) == "error: ValueError: "


def test_a_kernel_that_does_not_fit_on_the_gpu():
    errors = pytest.importorskip("triton.runtime.errors", reason="Triton is not installed")
    error = errors.OutOfResources(262_144, 232_448, "shared memory")
    assert not is_out_of_memory(error)
    assert describe(error) == (
        "error: a kernel does not fit on this GPU (out of resource: shared memory, Required: "
        "262144, Hardware limit: 232448); set RECOLLECT_KERNELS=off to train without kernels"
    )


def test_memory_that_ran_out():
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(RuntimeError("[enforce fail] not enough memory"))
    assert not is_out_of_memory(RuntimeError("shapes differ"))
