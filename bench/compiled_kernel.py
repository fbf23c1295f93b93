"""A Triton kernel compiled for an architecture that this machine need not have."""

from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

TYPES = {
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.uint8: "u8",
    torch.bool: "i1",
}


def compile_kernel(kernel: JITFunction, bound: dict[str, Any], architecture: int) -> Any:
    """Compile it as a launch with these arguments, by name, would."""
    signature, constants, attributes, options = {}, {}, {}, {}
    for name in bound.keys() - set(kernel.arg_names):
        options[name] = bound[name]
    for index, parameter in enumerate(kernel.params):
        value = bound[parameter.name]
        if parameter.is_constexpr or value is None or (type(value) is int and value == 1):
            signature[parameter.name] = "constexpr"
            constants[(index,)] = value
        elif isinstance(value, Tensor):
            signature[parameter.name] = f"*{TYPES[value.dtype]}"
            attributes[(index,)] = [["tt.divisibility", 16]]
        elif isinstance(value, int):
            signature[parameter.name] = "i32" if abs(value) < 2**31 else "i64"
            if value % 16 == 0:
                attributes[(index,)] = [["tt.divisibility", 16]]
        else:
            signature[parameter.name] = "fp32"
    source = ASTSource(kernel, signature, constants, attributes)
    return triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=options)
