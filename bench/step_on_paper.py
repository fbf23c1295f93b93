"""What a training step would do on a GPU, worked out without one:

`python bench/step_on_paper.py SWEEP.toml [sm_90]`

For each shape of the sweep the memory traffic of one run-step: every operation and every Triton
kernel of the GPU's path, with the bytes of its arguments and results. Kernels are not run, so
numbers are wrong and sizes right. With an architecture each kernel is compiled for it: registers
per thread, bytes that did not fit into them (stack), shared memory.
"""

import re
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any
from unittest.mock import patch

import torch
import triton
from compiled_kernel import compile_kernel
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from triton.runtime.jit import JITFunction

import recollect.ops
from recollect.ops import long_conv
from recollect.spec.run import RunSpec
from recollect.spec.sweep import group_by_shape, read_sweep
from recollect.tasks.build import task_of
from recollect.training import population as trained

SHOWN = 20
# Operations that only look at a tensor in another way, or reserve memory.
# fmt: off
FREE = {
    "alias", "as_strided", "chunk", "detach", "diagonal", "empty", "empty_like", "empty_strided",
    "expand", "narrow", "new_empty", "new_empty_strided", "permute", "reshape", "select", "slice",
    "split", "split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze",
    "view", "_reshape_alias", "_unsafe_view",
}
# fmt: on
traffic: Counter[str] = Counter()
calls: Counter[str] = Counter()
kernels: dict[str, tuple[JITFunction, dict[str, Any]]] = {}


def size(value: Any) -> int:
    return value.numel() * value.element_size() if isinstance(value, Tensor) else 0


def note(name: str, values: list[Any]) -> None:
    traffic[name] += sum(map(size, values))
    calls[name] += 1


def record_kernel(
    self: JITFunction, *arguments: Any, grid: Any, warmup: bool, **named: Any
) -> None:
    bound = dict(zip(self.arg_names, arguments, strict=False)) | named
    name = f"{self.fn.__module__.removeprefix('recollect.ops.')}.{self.fn.__name__}"
    note(name, list(bound.values()))
    constants = [str(bound[one.name]) for one in self.params if one.is_constexpr]
    kernels.setdefault(f"{name} [{' '.join(constants)}]", (self, bound))


class Recorder(TorchDispatchMode):
    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        name = function.__name__.split(".")[0]
        if name not in FREE:
            note(f"{name} ({_place()})", tree_leaves((args, kwargs, result)))
        return result


def _place() -> str:
    for frame in reversed(traceback.extract_stack()):
        if "/recollect/" in frame.filename and "training/population" not in frame.filename:
            return f"{frame.filename.rpartition('/recollect/')[2]}:{frame.lineno}"
    return "backward"


def act_as_on_a_gpu() -> None:
    """Kernels everywhere, recorded instead of launched; bf16 products under autocast."""
    for found in iter_modules(recollect.ops.__path__):
        module = import_module(f"recollect.ops.{found.name}")
        if found.ispkg and hasattr(module, "use_triton"):
            patch.object(module, "use_triton", return_value=True).start()
    patch.object(long_conv, "TOEPLITZ_LENGTH", long_conv.TOEPLITZ_LENGTH_GPU).start()
    patch.object(JITFunction, "run", record_kernel).start()
    is_on, dtype = torch.is_autocast_enabled, torch.get_autocast_dtype
    patch.object(torch, "is_autocast_enabled", lambda device="cpu": is_on("cpu")).start()
    patch.object(torch, "get_autocast_dtype", lambda device="cpu": dtype("cpu")).start()
    patch.object(trained, "autocast", autocast_here).start()


def autocast_here(device: torch.device, precision: str) -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16", cache_enabled=False)


def resources(kernel: JITFunction, bound: dict[str, Any], architecture: int) -> str:
    """Of the kernel for these arguments."""
    built = compile_kernel(kernel, bound, architecture)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(built.asm["cubin"])
        file.flush()
        tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
        printed = subprocess.run(
            [tools / "cuobjdump", "--dump-resource-usage", file.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", printed)
    registers, stack = found.groups() if found else ("?", "?")
    return f"{registers} registers, {stack} B of stack, {built.metadata.shared:,} B shared"


def show(run: RunSpec, architecture: int | None) -> None:
    traffic.clear()
    calls.clear()
    kernels.clear()
    population = trained.Population([run], task_of(run, "cpu"), torch.device("cpu"))
    rows = population.next_rows()
    with Recorder():
        population.train_step(rows)
    members = population.model.population  # a CPU has at least two
    total = sum(traffic.values())
    task = f"({run.task.length},{getattr(run.task, 'pairs', '')})"
    print(
        f"{run.model.mixer.name} {task}, width {run.model.width}, {run.model.depth} layers: ",
        end="",
    )
    print(f"{total / members / 1e6:,.0f} MB per run-step")
    for name, count in traffic.most_common(SHOWN):
        print(f"{count / members / 1e6:9,.1f} MB  {count / total:5.1%}  x{calls[name]:<3d} {name}")
    for name, (kernel, bound) in kernels.items() if architecture else ():
        print(f"  {name}: {resources(kernel, bound, architecture or 0)}")


sweep = read_sweep(Path(sys.argv[1]))
act_as_on_a_gpu()
for group in group_by_shape(sweep.runs):
    show(group[0], int(sys.argv[2].removeprefix("sm_")) if len(sys.argv) > 2 else None)
