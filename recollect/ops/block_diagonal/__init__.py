"""Products with block-diagonal matrices: y = x W, where only the blocks of W are stored.

Shapes: P population, E channels, R blocks of O = E / R channels.
"""

from torch import Tensor

from recollect.ops.block_diagonal import dense, plain
from recollect.ops.dispatch import use_triton


def block_diagonal(x: Tensor, weight_PROO: Tensor) -> Tensor:
    """Return x (P, B, ..., E) times a block-diagonal matrix per member."""
    if use_triton(x) and weight_PROO.shape[1] > 1:
        return dense.block_diagonal(x, weight_PROO)
    return plain.block_diagonal(x, weight_PROO)
