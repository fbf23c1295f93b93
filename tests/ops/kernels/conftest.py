"""Kernels against their plain references. Without a GPU they run through Triton's interpreter:
the same code, slowly.

The interpreter is chosen when a kernel's module is first imported, so the variable is set before
any of them is.
"""

import os
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FunctionType
from typing import Any

import pytest
import torch
from torch import Tensor

import recollect.ops

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session", autouse=True)
def _redirect_once() -> Iterator[None]:
    """A third of the interpreter's time goes into redirecting Triton's language to itself, at every
    call of a function inside a kernel, though the launch has done so already: once for each module
    and launch is the same.
    """
    if torch.cuda.is_available():
        yield
        return
    interpreter = pytest.importorskip(
        "triton.runtime.interpreter", reason="Triton is not installed"
    )
    redirect, launch, done = interpreter._patch_lang, interpreter.GridExecutor.__call__, set[str]()

    def redirect_once(function: FunctionType) -> Any:
        if function.__module__ in done:
            return None  # of a call inside a kernel, which does not ask for it
        done.add(function.__module__)
        return redirect(function)

    def launch_anew(self: Any, *arguments: Any, **options: Any) -> None:
        done.clear()
        try:
            launch(self, *arguments, **options)
        finally:
            done.clear()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang", redirect_once)
        patch.setattr(interpreter.GridExecutor, "__call__", launch_anew)
        yield


@pytest.fixture(autouse=True)
def _unwritten_memory_holds_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN, and integers of ones alone: a kernel that reads what nobody has written fails every
    time, and not only where that memory was used before.
    """

    def spoilt(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def made(*arguments: Any, **options: Any) -> Tensor:
            empty = make(*arguments, **options)
            if empty.is_floating_point() or empty.is_complex():
                empty.detach().fill_(float("nan"))
            else:
                empty.zero_().bitwise_not_()
            return empty

        return made

    for name in ("empty", "empty_like", "empty_strided"):
        monkeypatch.setattr(torch, name, spoilt(getattr(torch, name)))
    monkeypatch.setattr(Tensor, "new_empty", spoilt(Tensor.new_empty))


@pytest.fixture
def exact_products() -> Iterator[None]:
    """Matrix products in full float32, on a GPU too."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.fixture
def switch_kernels(monkeypatch: pytest.MonkeyPatch, exact_products: None) -> Callable[[bool], None]:
    """Turns all kernels on or off, whatever the device: an operation is a folder of recollect.ops
    that asks `use_triton`, and only where a kernel runs is its module imported.
    """
    folders = [found.name for found in pkgutil.iter_modules(recollect.ops.__path__) if found.ispkg]
    modules = [import_module(f"recollect.ops.{folder}") for folder in folders]

    def switch(on: bool) -> None:
        for module in modules:
            if hasattr(module, "use_triton"):
                monkeypatch.setattr(module, "use_triton", lambda *tensors: on)

    return switch
