"""What the bits of a number depend on: named, compared, and not compared where it is not known."""

from dataclasses import replace

import pytest
import torch

import recollect
from recollect.ops.dispatch import kernels_off
from recollect.training.environment import UNKNOWN, Environment, differences

HERE = Environment({"recollect": "1", "torch": "2.13", "numba": "0.60"}, "cpu", 2, "AVX512")
GPU = replace(HERE, device="NVIDIA H200")


def test_here() -> None:
    found = Environment.here()
    assert found.versions["recollect"] == recollect.__version__
    assert found.versions["torch"] == torch.__version__
    assert {"python", "numpy"} <= found.versions.keys()
    assert found.device == "cpu"
    assert found.threads == torch.get_num_threads()
    assert found.cpu == torch.backends.cpu.get_cpu_capability() != ""
    assert differences(found, Environment.here()) == ()
    assert Environment.parse(vars(found)) == found
    with kernels_off():
        assert differences(found, Environment.here()) == ("kernels on -> off",)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (HERE, replace(HERE, versions={**HERE.versions, "torch": "2.14"}), "torch 2.13 -> 2.14"),
        (HERE, replace(HERE, versions={"recollect": "1", "torch": "2.13"}), "numba 0.60 -> none"),
        (HERE, replace(HERE, threads=4), "threads 2 -> 4"),
        (HERE, replace(HERE, cpu="AVX2"), "CPU capability AVX512 -> AVX2"),
        (HERE, GPU, "device cpu -> NVIDIA H200"),
        (GPU, replace(GPU, threads=4, cpu="AVX2"), ""),  # nothing is computed there
        (replace(HERE, cpu="", threads=None), HERE, ""),
        (UNKNOWN, HERE, ""),
        (HERE, HERE, ""),
    ],
)
def test_what_differs_is_named(before: Environment, now: Environment, expected: str) -> None:
    assert differences(before, now) == ((expected,) if expected else ())
