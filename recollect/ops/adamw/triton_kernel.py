"""One update of AdamW for one stacked parameter in one pass: four numbers read, three written.

Formulas: adamw.py.
"""

# mypy: disable-error-code="no-untyped-def, arg-type, call-arg"
# Triton types the arguments of a kernel itself, at the first call.

import triton
import triton.language as tl
from torch import Tensor

# Eight numbers of each tensor per thread, in loads of 16 bytes, with four tensors in flight: 56
# registers, half of all warps active and more than 100 KB in flight per multiprocessor. Small
# tensors have small blocks.
LARGEST_BLOCK = 1024
NUMBERS_PER_WARP = 256


def adamw_(
    parameter: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    *,
    keep_P: Tensor,
    step_P: Tensor,
    root: Tensor,
    shrink_P: Tensor | None,
    beta1: float,
    beta2: float,
    eps: float,
) -> None:
    """See adamw.adamw_; the tensors that are changed must be contiguous."""
    if not (parameter.is_contiguous() and first.is_contiguous() and second.is_contiguous()):
        raise ValueError("the parameter and its moments must be contiguous")
    population = parameter.shape[0]
    size = parameter[0].numel()
    block = min(triton.next_power_of_2(size), LARGEST_BLOCK)
    blocks = triton.cdiv(size, block)
    _update[(population * blocks,)](
        parameter,
        gradient.contiguous(),
        first,
        second,
        keep_P,
        step_P,
        root,
        shrink_P,
        1 - beta1,
        beta2,
        1 - beta2,
        eps,
        size,
        blocks,
        CLIPPED=shrink_P is not None,
        BLOCK=block,
        num_warps=max(1, block // NUMBERS_PER_WARP),
    )


@triton.jit
def _update(
    parameter,
    gradient,
    first,
    second,
    keeps,
    steps,
    root,
    shrinks,
    share1,
    beta2,
    share2,
    eps,
    size,
    blocks,
    CLIPPED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    member = (tl.program_id(0) // blocks).to(tl.int64)
    inside = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    mask = inside < size
    at = member * size + inside
    g = tl.load(gradient + at, mask=mask).to(tl.float32)
    m = tl.load(first + at, mask=mask)
    v = tl.load(second + at, mask=mask)
    x = tl.load(parameter + at, mask=mask)
    if CLIPPED:
        g *= tl.load(shrinks + member)
    m += share1 * (g - m)
    v = beta2 * v + share2 * g * g
    # Correctly rounded, as in the plain form; free, because memory limits the kernel.
    spread = tl.div_rn(tl.sqrt_rn(v), tl.load(root).to(tl.float32)) + eps
    x = x * tl.load(keeps + member) - tl.div_rn(m, spread) * tl.load(steps + member)
    tl.store(parameter + at, x, mask=mask)
    tl.store(first + at, m, mask=mask)
    tl.store(second + at, v, mask=mask)
