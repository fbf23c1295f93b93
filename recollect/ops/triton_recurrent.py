"""Functions that the kernels of LSTM and GRU share: one program walks through time with some rows
of a member and its recurrent weights.

Shapes: P population, B batch, L length, D width; in a kernel R rows, W channels.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.dispatch import product_precision
from recollect.ops.triton_tiles import padded

ROWS = 64  # rows of a product on Hopper


def weights_bytes(gates: int, width: int, dtype: torch.dtype) -> int:
    """Return the shared memory of a program: the weights of all gates and two tiles of rows."""
    channels = padded(width)
    return (gates * channels + 2 * ROWS) * channels * dtype.itemsize


def launch(kernel: Any, tensors: tuple[Tensor, ...], h_PBLD: Tensor, **constants: Any) -> None:
    population, batch, length, width = h_PBLD.shape
    rows, channels = min(ROWS, padded(batch)), padded(width)
    # Few enough registers for two programs on a multiprocessor, so that one can multiply while the
    # other waits for memory.
    halved = {"maxnreg": 128} if channels <= 64 and h_PBLD.dtype == torch.bfloat16 else {}
    kernel[(population * triton.cdiv(batch, rows),)](
        *tensors,
        batch,
        length,
        width,
        **constants,
        R=rows,
        W=channels,
        PRECISION=product_precision("ieee"),
        num_warps=8,
        num_stages=1,
        **halved,
    )


def previous(h_PBLD: Tensor) -> Tensor:
    """Return h_{t-1} for every t, all rows as one axis: (P, B L, D)."""
    before_PBLD = torch.empty_like(h_PBLD)
    before_PBLD[:, :, 0] = 0
    before_PBLD[:, :, 1:] = h_PBLD[:, :, :-1]
    return before_PBLD.flatten(1, 2)


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def own_rows(batch, length, width, R: tl.constexpr, W: tl.constexpr):
    """Return this program's member, where its rows of a tensor (P, B, L, D) start, its rows and
    channels, and which of them are valid.
    """
    tiles = tl.cdiv(batch, R)
    p = (tl.program_id(0) // tiles).to(tl.int64)
    first = (tl.program_id(0) % tiles) * R
    row, column = tl.arange(0, R)[:, None], tl.arange(0, W)[None, :]
    inside = (first + row < batch) & (column < width)
    # 64 bits for the start; 32 bits are enough within a tile.
    return p, (p * batch + first) * length * width, row, column, inside


@triton.jit
def weights(recur_ptr, p, gate, width, dtype: tl.constexpr, GATES: tl.constexpr, W: tl.constexpr):
    """Load U of one gate, (D, D)."""
    row, column = tl.arange(0, W)[:, None], tl.arange(0, W)[None, :]
    place = (p * width + row) * GATES * width + gate * width + column
    return tl.load(recur_ptr + place, mask=(row < width) & (column < width), other=0.0).to(dtype)


@triton.jit
def bias(bias_ptr, p, gate, width, GATES: tl.constexpr, W: tl.constexpr):
    """Load b of one gate, (1, D)."""
    column = tl.arange(0, W)[None, :]
    return tl.load(bias_ptr + (p * GATES + gate) * width + column, mask=column < width, other=0.0)


@triton.jit
def load_gate(gates_ptr, gate, width, inside):
    """Load one gate of the rows whose gates start at `gates_ptr`, (R, D)."""
    return tl.load(gates_ptr + gate * width, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def store_gate(gates_ptr, gate, width, x, inside):
    tl.store(gates_ptr + gate * width, x, mask=inside)
