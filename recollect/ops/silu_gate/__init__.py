"""y SiLU(z), the gate on a mixer's output."""

from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.silu_gate import plain


def silu_gate(y: Tensor, gate: Tensor) -> Tensor:
    """Return y SiLU(gate) for two tensors of the same shape, in the dtype of y."""
    if use_triton(y, gate):
        from recollect.ops.silu_gate import triton_kernel

        return triton_kernel.silu_gate(y, gate)
    return plain.silu_gate(y, gate)
