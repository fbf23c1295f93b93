"""Precompiling: kernels are ordered and not launched; on a CPU there is nothing to compile.
tests/training/test_cuda.py has the rest.
"""

from concurrent.futures import wait
from types import SimpleNamespace

import pytest
import torch

from recollect.mixers.fla.options import FlaSpec
from recollect.running.planning import precompile as precompiling
from recollect.running.planning.cost import has_foreign_code
from recollect.running.planning.precompile import compiles, precompile

CPU = torch.device("cpu")


def test_on_a_cpu_nothing_is_built(make_run, monkeypatch):
    monkeypatch.setattr(precompiling, "Population", None)
    precompile(make_run(), None, CPU)


def test_code_from_outside_is_not_precompiled(make_run, monkeypatch):
    run = make_run()
    assert not has_foreign_code(run)
    monkeypatch.setattr(precompiling, "compiles", lambda device: True)
    monkeypatch.setattr(precompiling, "_compiled_in_threads", None)
    fla = FlaSpec.model_construct(name="fla:Layer")
    layer = SimpleNamespace(
        model=SimpleNamespace(mixer=SimpleNamespace(kinds=lambda: [run.model.mixer, fla]))
    )
    assert has_foreign_code(layer)
    precompile(layer, None, CPU)
    monkeypatch.setattr(type(run.model.mixer), "foreign", True)
    assert has_foreign_code(run)
    precompile(run, None, CPU)


def test_what_compiles(monkeypatch):
    for device, triton, wanted in (
        ("cpu", True, False),
        ("cuda", False, False),
        ("cuda", True, True),
    ):
        monkeypatch.setattr(precompiling.dispatch, "has_triton", lambda triton=triton: triton)
        assert compiles(torch.device(device)) == wanted


def test_a_launch_becomes_an_order_to_compile_and_later_a_launch_again(monkeypatch):
    jit = pytest.importorskip("triton.runtime.jit", reason="Triton is not installed")
    calls = []
    monkeypatch.setattr(
        jit.JITFunction,
        "run",
        lambda self, *args, grid, warmup, **options: calls.append((args, grid, warmup)),
    )

    def kernel(x_ptr):
        pass

    function = jit.JITFunction(kernel)

    def fail() -> None:
        with precompiling._no_launches():
            function[(3,)]("x")
            raise ValueError("on the way")

    with pytest.raises(ValueError, match="on the way"):
        fail()
    function[(4,)]("y")
    assert calls == [(("x",), (3,), True), (("y",), (4,), False)]


def test_what_is_compiled_is_loaded_at_once():
    loaded = []

    class Kernel:
        @property
        def run(self) -> None:
            loaded.append(self)

    kernel = Kernel()
    with precompiling._LoadingPool(2) as pool:
        futures = [pool.submit(lambda: kernel), pool.submit(lambda: SimpleNamespace())]
        wait(futures)
    assert futures[0].result() is kernel
    assert loaded == [kernel]
    # Triton gets the error, and compiles that kernel when it is launched.
    assert isinstance(futures[1].exception(), AttributeError)
