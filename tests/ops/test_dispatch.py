"""Which form of an operation runs on a machine, and what is said about it."""

import subprocess
import sys
from typing import get_args

import pytest
import torch

from recollect.cli.tables import fast_here
from recollect.mixers.options import Core
from recollect.mixers.registry import MIXERS
from recollect.ops import dispatch

LOOPS = {"selective scan", "scan", "recurrence"}  # in plain PyTorch


@pytest.fixture
def machine(monkeypatch):
    """Pretends what a machine has."""

    def pretend(gpu: bool, triton: bool, numba: bool) -> None:
        monkeypatch.delenv("RECOLLECT_KERNELS", raising=False)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
        monkeypatch.setattr(dispatch, "has_triton", lambda: triton)
        monkeypatch.setattr(dispatch, "has_numba", lambda: numba)

    return pretend


def loops() -> set[str]:
    """The cores that have no fast form."""
    return {core for core in get_args(Core) if dispatch.fast_form(core) is None}


def test_float32_on_a_cpu_is_compiled_and_may_be_switched_off(monkeypatch):
    pytest.importorskip("numba")
    x = torch.ones(1)
    assert dispatch.use_numba(x)
    assert not dispatch.use_numba(x, x.double())
    assert not dispatch.use_numba(x.to("meta"))
    with dispatch.kernels_off():
        assert not dispatch.use_numba(x)
    assert dispatch.use_numba(x)
    monkeypatch.setenv("RECOLLECT_KERNELS", "off")
    assert not dispatch.use_numba(x)


def test_without_numba_the_plain_operations_serve(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    dispatch.has_numba.cache_clear()
    try:
        assert not dispatch.use_numba(torch.ones(1))
    finally:
        dispatch.has_numba.cache_clear()


def test_numba_is_loaded_by_those_who_compute_with_it():
    modules = "recollect.training.population, recollect.mixers.build"
    code = f"import sys, {modules}; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("gpu", "triton", "numba", "slow"),
    [
        (True, True, True, set()),
        (True, False, True, LOOPS),  # numba computes on a CPU only
        (False, True, True, {"scan", "recurrence"}),
        (False, True, False, LOOPS),
    ],
)
def test_a_core_is_a_loop_where_no_compiled_form_runs(machine, gpu, triton, numba, slow):
    machine(gpu, triton, numba)
    assert loops() == slow


@pytest.mark.parametrize("gpu", [True, False], ids=["gpu", "cpu"])
def test_without_kernels_all_walks_are_loops(machine, monkeypatch, gpu):
    machine(gpu, triton=True, numba=True)
    with dispatch.kernels_off():
        assert loops() == LOOPS
    assert loops() < LOOPS
    monkeypatch.setenv("RECOLLECT_KERNELS", "off")
    assert loops() == LOOPS


def test_what_the_catalogue_says(machine):
    machine(gpu=False, triton=True, numba=True)
    on_cpu = {name: fast_here(options.core) for name, options in MIXERS.items()}
    assert on_cpu["mamba"] == on_cpu["s6"] == "numba selective scan"
    assert {name for name, words in on_cpu.items() if words.startswith("none")} == {
        "gru",
        "lstm",
        "min_gru",
        "rwkv4",
    }
    assert on_cpu["attention"] == "matrix products"
    machine(gpu=True, triton=True, numba=True)
    on_gpu = {name: fast_here(options.core) for name, options in MIXERS.items()}
    assert on_gpu["gru"] == on_gpu["lstm"] == "Triton recurrence"
    assert on_gpu["mamba"] == "Triton selective scan"
    assert on_gpu["rwkv4"] == on_gpu["min_gru"] == "Triton scan"
    assert fast_here("unknown") == "unknown"
