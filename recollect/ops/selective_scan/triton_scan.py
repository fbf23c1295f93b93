"""The walk along time of the selective scan as Triton kernels, forward and backward.

    h_t = exp(delta_t A) * h_{t-1} + (delta_t u_t) B_t        y_t = h_t C_t + skip u_t
    g_t = dy_t C_t + carry_{t+1}        carry_t = exp(delta_t A) * g_t
    dC_t = sum over channels of dy_t h_t            dB_t = sum over channels of g_t delta_t u_t
    du_t = delta_t (g_t B_t) + skip dy_t
    ddelta_t = u_t (g_t B_t) + sum over states of A carry_t h_{t-1}
    draw_t = ddelta_t (1 - exp(-delta_t))
    dA = sum over rows and t of delta_t carry_t h_{t-1}
    dskip = sum over rows and t of dy_t u_t

where g is the gradient of h_t, carry its part for h_{t-1}, and raw the argument of delta's
softplus.

Shapes: P population, B batch, L length, E channels, N states, G groups of partial sums. In a
kernel: C channels of a program, S states in a thread, J states across threads (state = j S + s, N
at most J S), K steps of a chunk.

A program is one warp, walks along time and has all states of C channels in registers, as a tensor
(J, S, C). Sums over states and over channels both cross threads. Four channels in a row by four
states per thread make the two cheapest together: 2 exchanges of 4 values for a sum over 16 states,
3 exchanges of 4 values for a sum over 32 channels, and all loads have 16 bytes per thread. Triton
chooses that layout because every large tensor has its channels last (A and the borders are stored
so) and because values that depend only on the channel are loaded as (J, 1, C), once per thread that
needs it.

The forward keeps the state before every chunk except the first. The backward takes the chunks in
reverse: it computes the K states of a chunk again, keeps them in registers, and goes back through
them. Inputs of a chunk are loaded before its first store, since a load cannot be moved up across a
store. Sums over channels beyond a block and over rows beyond a program are written as partial sums;
a second kernel adds them in an order that does not depend on P.

In the last layer of a model y is not read after the last labelled position of a row. The walks take
`steps_B` steps of each row and skip the chunks after them: y is not written there, and gradients
are zero.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.selective_scan.triton_backward import backward_kernel
from recollect.ops.selective_scan.triton_forward import forward_kernel
from recollect.ops.selective_scan.triton_tiles import LOG2E

# Elements of a program's state. In the backward 16 per thread, so that K of them, A, dA and the
# carry fit into its registers. The forward keeps less: with 8, more programs share a multiprocessor
# (.66 against .74 ms for 16 x 512 rows of 128 channels).
ELEMENTS, FORWARD_ELEMENTS = 512, 256
CHANNELS = 128  # at most, per program: 4 per thread
CHUNK = 4  # K: the borders have N / K times the size of u
# Steps loaded at once in the forward: enough to hide a load, at 16 registers each.
FORWARD_GROUP = 4
# Rows of a program in the backward: partial sums of dA have N / (ROWS L) times the size of u. More
# rows would leave multiprocessors idle in small grids.
ROWS = 1
# Registers of a thread of the backward, so that twelve programs share a multiprocessor. On an H200
# Mamba then makes 1,322 run-steps/s at width 64; with chunks of 8 and all 255 registers 1,280, with
# chunks of 4 and 128 registers 1,232. If a single member has at most sixteen programs per
# multiprocessor, fewer registers let all of them run at once, which is faster: .56 against .64 ms
# for 256 rows of 256 channels.
REGISTERS, FEWER_REGISTERS, PROGRAMS_AT_ONCE = 168, 128, 16
SUM_ELEMENTS = 2048  # per program that adds partial sums, at most SUM_GROUPS of them along G
SUM_GROUPS = 32


def base_two(a_PEN: Tensor) -> Tensor:
    """Return A for the kernels, a_PNE: exp(x) is computed as 2^(x log2 e)."""
    return (a_PEN.float() * LOG2E.value).transpose(1, 2).contiguous()


def run_forward(
    u: Tensor,
    delta: Tensor,
    a_PNE: Tensor,
    b: Tensor,
    c: Tensor,
    skip: Tensor,
    steps_B: Tensor,
    keep: bool,
) -> tuple[Tensor, Tensor]:
    """Return y_PBLE and, with `keep`, the states at the borders of chunks for the backward.

    u and delta are contiguous; b and c are views of the same spacing whose last axis is dense.
    """
    population, batch, length, channels = u.shape
    states = a_PNE.shape[1]
    sizes = _sizes(channels, states, length, FORWARD_ELEMENTS)
    y_PBLE = torch.empty_like(u)
    borders = max(0, triton.cdiv(length, sizes["K"]) - 1) if keep else 0  # an evaluation keeps none
    borders_PBKNE = u.new_empty(population, batch, borders, states, channels, dtype=torch.float32)
    grid = (population * batch * triton.cdiv(channels, sizes["C"]),)
    inputs = (u, delta, a_PNE, b, c, skip, steps_B)
    flags = {"BC_ROW": b.stride(2), "KEEP": keep, "GROUP": min(FORWARD_GROUP, sizes["K"])}
    if u.numel():
        forward_kernel[grid](
            *inputs, y_PBLE, borders_PBKNE, batch, length, **sizes, **flags, num_warps=1
        )
    return y_PBLE, borders_PBKNE


def run_backward(
    dy: Tensor,
    u: Tensor,
    delta: Tensor,
    a_PNE: Tensor,
    b: Tensor,
    c: Tensor,
    skip: Tensor,
    steps_B: Tensor,
    borders: Tensor,
    draw: Tensor,
    db: Tensor,
    dc: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Fill draw (the gradient before softplus), db and dc, which may be views into larger tensors;
    return du_PBLE, da_PEN and dskip_PE.
    """
    dy = dy.contiguous()
    population, batch, length, channels = u.shape
    sizes = _sizes(channels, a_PNE.shape[1], length, ELEMENTS)
    blocks, row_blocks = triton.cdiv(channels, sizes["C"]), triton.cdiv(batch, ROWS)
    du_PBLE = torch.empty_like(u)
    db_GPBLN, dc_GPBLN = (u.new_empty(blocks, *x.shape, dtype=torch.float32) for x in (b, c))
    da_GPNE = u.new_empty(row_blocks, *a_PNE.shape, dtype=torch.float32)
    dskip_GPE = u.new_empty(row_blocks, population, channels, dtype=torch.float32)
    inputs = (dy, u, delta, a_PNE, b, c, skip, steps_B, borders)
    outputs = (du_PBLE, draw, da_GPNE, db_GPBLN, dc_GPBLN, dskip_GPE)
    spacing = {"BC_ROW": b.stride(2), "DRAW_ROW": draw.stride(2)}
    if u.numel():
        programs = population * row_blocks * blocks
        at_once = population == 1 and programs <= PROGRAMS_AT_ONCE * _multiprocessors(u.device)
        registers = FEWER_REGISTERS if at_once else REGISTERS
        backward_kernel[(programs,)](
            *inputs,
            *outputs,
            population,
            batch,
            length,
            ROWS=ROWS,
            **sizes,
            **spacing,
            num_warps=1,
            maxnreg=registers,
        )
    _add_groups(db_GPBLN, db)
    _add_groups(dc_GPBLN, dc)
    da_PNE = _add_groups(da_GPNE, torch.empty_like(a_PNE))
    return (
        du_PBLE,
        da_PNE.transpose(1, 2),
        _add_groups(dskip_GPE, torch.empty_like(skip)),
    )


def _sizes(channels: int, states: int, length: int, elements: int) -> dict[str, int]:
    """Return the kernels' compile-time constants.

    More than 128 states are more than 16 elements per thread, and get shorter chunks.
    """
    padded = triton.next_power_of_2(states)
    in_thread = min(padded, 4)
    chunk = max(1, min(CHUNK, CHUNK * ELEMENTS // (padded * max(4, ELEMENTS // padded))))
    tile = {
        "S": in_thread,
        "J": padded // in_thread,
        "C": min(CHANNELS, max(4, elements // padded)),
        "K": chunk,
    }
    return {"E": channels, "N": states, **tile, "EVEN": length % chunk == 0}


@cache
def _multiprocessors(device: torch.device) -> int:
    return (
        torch.cuda.get_device_properties(device).multi_processor_count
        if device.type == "cuda"
        else 1
    )


def _add_groups(x_G: Tensor, out: Tensor) -> Tensor:
    """Sum over the first axis into `out`, whose rows are dense but need not be adjacent."""
    groups, size, width = x_G.shape[0], out.numel(), out.shape[-1]
    rows = min(SUM_GROUPS, triton.next_power_of_2(groups))
    columns = SUM_ELEMENTS // rows
    if size:
        grid = (triton.cdiv(size, columns),)
        spacing = {"WIDTH": width, "OUT_ROW": out.stride(-2)}
        _sum_kernel[grid](
            x_G, out, groups, size, **spacing, ROWS=rows, COLUMNS=columns, num_warps=4
        )
    return out


@triton.jit
def _sum_kernel(
    x_ptr,
    out_ptr,
    groups,
    size,
    WIDTH: tl.constexpr,
    OUT_ROW: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    column_C = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    total_C = tl.zeros((COLUMNS,), tl.float32)
    for first in range(0, groups, ROWS):
        group_R = first + tl.arange(0, ROWS)
        mask_RC = (group_R < groups)[:, None] & (column_C < size)[None, :]
        x_RC = tl.load(
            x_ptr + group_R.to(tl.int64)[:, None] * size + column_C[None, :],
            mask=mask_RC,
            other=0.0,
        )
        total_C += tl.sum(x_RC, 0)
    tl.store(
        out_ptr + column_C // WIDTH * OUT_ROW + column_C % WIDTH, total_C, mask=column_C < size
    )
