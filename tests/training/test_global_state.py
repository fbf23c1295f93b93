"""What training sets for the whole process it restores; no GPU is needed to see that."""

import gc
import os

import pytest
import torch
from populations_made import advance

from recollect.ops.recording import no_garbage_collection
from recollect.training.precision import matmul_precision

CUDA = torch.device("cuda")


@pytest.mark.parametrize(
    ("precision", "inside"), [("fp32", "highest"), ("tf32", "high"), ("bf16", "high")]
)
@pytest.mark.parametrize("before", ["highest", "high", "medium"])
def test_the_precision_of_products_is_restored(before, precision, inside):
    outside = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(before)
        with matmul_precision(CUDA, precision):
            assert torch.get_float32_matmul_precision() == inside
        assert torch.get_float32_matmul_precision() == before
        with pytest.raises(ZeroDivisionError), matmul_precision(CUDA, precision):
            _ = 1 / 0
        assert torch.get_float32_matmul_precision() == before
        with matmul_precision(torch.device("cpu"), precision):
            assert torch.get_float32_matmul_precision() == before, "a CPU has one"
    finally:
        torch.set_float32_matmul_precision(outside)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_restored(enabled):
    try:
        (gc.enable if enabled else gc.disable)()
        with no_garbage_collection():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
        with pytest.raises(ZeroDivisionError), no_garbage_collection():
            _ = 1 / 0
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


def test_training_on_a_cpu_leaves_the_process_as_it_was(make_run, make_population):
    def settings() -> tuple[object, ...]:
        generator = torch.random.get_rng_state().tolist()
        return torch.get_float32_matmul_precision(), torch.is_grad_enabled(), generator

    before = settings()
    population = advance(make_population([make_run({"train.precision": "tf32"})]), 2)
    population.evaluate()
    assert settings() == before
    assert "MKL_CBWR" in os.environ, "set at import, before MKL's first product"
