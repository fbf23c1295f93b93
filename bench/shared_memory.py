"""Which kernels need more shared memory than a GPU has, worked out without one:

`python bench/shared_memory.py ARCHITECTURE PRECISION` (as 89 bf16; exact fp32 is slow)

Compiles the kernels whose operands lie in shared memory for each architecture, precision and size,
and prints the bytes that they need beside those that the operation's rule expects. A kernel whose
rule expects too little would fail on a GPU that has less. Nothing is assembled or run.
"""

import sys
from collections.abc import Callable, Iterator
from unittest.mock import patch

import torch
from compiled_kernel import compile_kernel
from torch import Tensor
from triton.backends.nvidia.compiler import CUDABackend
from triton.runtime.jit import JITFunction

from recollect.ops.dropout import Mask
from recollect.ops.gated_scores import triton_kernel as gated
from recollect.ops.gru import triton_kernel as gru
from recollect.ops.lstm import triton_kernel as lstm
from recollect.ops.softmax_attention import tiles
from recollect.ops.softmax_attention import triton_kernel as short
from recollect.ops.softmax_attention import triton_long as long

WIDTHS = (16, 32, 64, 128, 256)
DTYPES = {"bf16": torch.bfloat16, "tf32": torch.float32, "fp32": torch.float32}
ARCHITECTURE, PRECISION = int(sys.argv[1]), sys.argv[2]

needs: dict[str, int] = {}  # of each kernel, the largest


def note_need(self: JITFunction, *arguments: object, grid: object, warmup: bool, **named: object):
    bound = dict(zip(self.arg_names, arguments, strict=False)) | named
    built = compile_kernel(self, bound, ARCHITECTURE)
    name = self.fn.__name__
    needs[name] = max(needs.get(name, 0), built.metadata.shared)


def leaf(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.zeros(shape, dtype=dtype, requires_grad=True)


def run(function: Callable[..., object], *tensors: Tensor) -> None:
    y = function(*tensors)
    y = y[0] if isinstance(y, tuple) else y
    torch.autograd.grad(y, tensors, torch.ones_like(y), allow_unused=True)


Case = tuple[str, int, Callable[[], None]]


def cases(dtype: torch.dtype) -> Iterator[Case]:
    """Each with its name, the bytes that the operation's rule expects, and what launches it."""
    for length in (16, 64, 128):
        for width in WIDTHS:
            if tiles.fits_short(length, length, width, False, dtype, 2**31):
                expected = tiles.short_bytes(length, length, width, dtype)
                yield (
                    f"attention {length} x {width}",
                    expected,
                    lambda n=length, d=width: run(
                        short.causal_attention,
                        *(leaf(2, 2, 1, n, d, dtype=dtype) for _ in range(3)),
                    ),
                )
    for width in WIDTHS:
        expected = tiles.long_bytes(width, dtype)
        mask = Mask(torch.zeros(2, dtype=torch.int64), 0.1)
        yield (
            f"long attention {width}",
            expected,
            lambda d=width, mask=mask: run(
                lambda q, k, v: long.causal_attention(q, k, v, None, mask),
                *(leaf(2, 2, 1, 300, d, dtype=dtype) for _ in range(3)),
            ),
        )
    for keys in WIDTHS:
        for values in WIDTHS:
            if gated.fits(keys, values, dtype, 2**31):
                expected = gated.shared_bytes(keys, values, dtype)
                yield (
                    f"gated scores {keys} x {values}",
                    expected,
                    lambda d=keys, e=values: run(
                        lambda q, k, v: gated.gated_scores(
                            q,
                            k,
                            v,
                            torch.zeros(2, 2, 1, 300),
                            torch.zeros(2, 2, 1, 300),
                            None,
                            None,
                        ),
                        leaf(2, 2, 1, 300, d, dtype=dtype),
                        leaf(2, 2, 1, 300, d, dtype=dtype),
                        leaf(2, 2, 1, 300, e, dtype=dtype),
                    ),
                )
    for name, module, function in (("lstm", lstm, lstm.lstm), ("gru", gru, gru.gru)):
        for width in WIDTHS[1:]:  # every GPU has enough for the narrowest
            expected = module.shared_bytes(width, dtype)
            channels = module.GATES * width
            shapes = (2, 64, 16, channels), (2, channels + (width if name == "gru" else 0))
            if module.fits(width, dtype, 2**18):
                yield (
                    f"{name} {width}",
                    expected,
                    lambda f=function, d=width, s=shapes, c=channels: run(
                        f,
                        leaf(*s[0], dtype=dtype),
                        leaf(*s[1], dtype=torch.float32),
                        leaf(2, d, c, dtype=torch.float32),
                    ),
                )


def main() -> None:
    print(" expected    needed  operation")
    for name, expected, launch in cases(DTYPES[PRECISION]):
        needs.clear()
        launch()
        needed = max(needs.values())
        verdict = "" if needed <= expected else "  TOO FEW EXPECTED"
        print(f"{expected:9,d} {needed:9,d}  {name}{verdict}", flush=True)


torch.set_float32_matmul_precision("highest" if PRECISION == "fp32" else "high")
# Launch nothing, and leave out the assembler: shared memory is known before it.
with (
    patch.object(JITFunction, "run", note_need),
    patch.object(CUDABackend, "make_cubin", lambda self, *rest: b"none"),
):
    main()
