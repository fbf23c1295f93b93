"""y SiLU(z): what a gate does to a mixer's output."""

import torch.nn.functional as F
from torch import Tensor

from recollect.ops.dispatch import use_triton


def silu_gate(y: Tensor, gate: Tensor) -> Tensor:
    """For two tensors of one shape, in the dtype of y."""
    if use_triton(y, gate):
        from recollect.ops import silu_gate_triton

        return silu_gate_triton.silu_gate(y, gate)
    return (y * F.silu(gate)).to(y.dtype)
