"""The walk along time of the selective scan as Triton kernels, forward and backward.

    h_t = exp(delta_t A) * h_{t-1} + (delta_t u_t) B_t        y_t = h_t C_t + skip u_t
    g_t = dy_t C_t + carry_{t+1}        carry_t = exp(delta_t A) * g_t
    dC_t = sum over channels of dy_t h_t            dB_t = sum over channels of g_t delta_t u_t
    du_t = delta_t (g_t B_t) + skip dy_t
    ddelta_t = u_t (g_t B_t) + sum over states of A carry_t h_{t-1}
    draw_t = ddelta_t (1 - exp(-delta_t))
    dA = sum over rows and t of delta_t carry_t h_{t-1}
    dskip = sum over rows and t of dy_t u_t

where g is the gradient of h_t, carry its part for h_{t-1}, and raw what delta is the softplus of.

Shapes: P population, B batch, L length, E channels, N states, G groups of partial sums. In a
kernel: C channels of a program, S states in a thread, J states across threads (state = j S + s, N
at most J S), K steps of a chunk.

A program is one warp, walks along time and has all states of C channels in registers, as a tensor
(J, S, C). Sums over states and over channels both cross threads. Four channels in a row by four
states per thread make the two cheapest together: 2 exchanges of 4 values for a sum over 16 states,
3 exchanges of 4 values for a sum over 32 channels, and all loads have 16 bytes per thread. Triton
takes that layout because every large tensor has its channels last (A and the borders are stored so)
and because what depends on the channel alone is loaded as (J, 1, C), once per thread that needs it.

The forward keeps the state before every chunk but the first. The backward takes the chunks in
reverse: it computes the K states of a chunk again, keeps them in registers, and goes back through
them. Inputs of a chunk are loaded before its first store, since a load cannot be moved up across a
store. Sums over channels beyond a block and over rows beyond a program are written as partial sums;
a second kernel adds them in an order that does not depend on P.

In the last layer of a model y is not read behind the last labelled position of a row. Of each row
the walks take `steps_B` steps and leave out the chunks behind them: y is
not written there, and gradients are zero.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

# Of a program's state. In the backward 16 per thread, so that K of them, A, dA and the carry fit
# into its registers. The forward has less to keep: with 8, more programs share a multiprocessor
# (.66 against .74 ms for 16 x 512 rows of 128 channels).
ELEMENTS, FORWARD_ELEMENTS = 512, 256
CHANNELS = 128  # most of a program: 4 per thread
CHUNK = 4  # K: the borders have N / K times the size of u
# Steps loaded at once in the forward: enough to hide a load, at 16 registers each.
FORWARD_GROUP = 4
# Of a program in the backward: partial sums of dA have N / (ROWS L) times the size of u. More rows
# would leave multiprocessors idle in small grids.
ROWS = 1
# Of a thread of the backward, so that twelve programs share a multiprocessor. On an H200 Mamba then
# makes 1,322 run-steps/s at width 64; with chunks of 8 and all 255 registers 1,280, with chunks of
# 4 and 128 registers 1,232. Where a single member has at most sixteen programs per multiprocessor,
# they are faster at once: .56 against .64 ms for 256 rows of 256 channels.
REGISTERS, FEWER_REGISTERS, PROGRAMS_AT_ONCE = 168, 128, 16
SUM_ELEMENTS = 2048  # of a program that adds partial sums, of which at most SUM_GROUPS along G
SUM_GROUPS = 32
LN2 = tl.constexpr(0.6931471805599453)
LOG2E = tl.constexpr(1.4426950408889634)


def base_two(a_PEN: Tensor) -> Tensor:
    """A as the kernels take it, a_PNE: exp(x) is computed as 2^(x log2 e)."""
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
    """y_PBLE and, with `keep`, the states at the borders of chunks for the backward.

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
        _forward_kernel[grid](
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
    """Fills draw (the gradient of what delta is the softplus of), db and dc, which may be views
    into larger tensors; returns du_PBLE, da_PEN and dskip_PE.
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
        _backward_kernel[(programs,)](
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
    """What kernels know when they are compiled.

    More than 128 states are more than 16 elements per thread: shorter chunks.
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
    """The sum over the first axis into `out`,
    whose rows are dense but may be apart from each other.
    """
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


# ---- kernels ----


@triton.jit
def _forward_kernel(
    u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, steps_ptr, y_ptr, borders_ptr,
    batch, length,
    E: tl.constexpr, N: tl.constexpr, S: tl.constexpr, J: tl.constexpr, C: tl.constexpr,
    K: tl.constexpr, EVEN: tl.constexpr,
    BC_ROW: tl.constexpr, KEEP: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    row = (program // tl.cdiv(E, C)).to(tl.int64)  # among the P * B
    member = row // batch
    channel_J1C, state_JS, real_J1C, real_JS = _places(program % tl.cdiv(E, C), E, N, S, J, C)
    first_J1C = _first(real_J1C, J)
    matrix_JSC, real_JSC = state_JS[:, :, None] * E + channel_J1C, real_JS[:, :, None] & real_J1C
    a_JSC = tl.load(a_ptr + member * N * E + matrix_JSC, mask=real_JSC, other=0.0)
    skip_J1C = tl.load(skip_ptr + member * E + channel_J1C, mask=real_J1C, other=0.0)
    # Everything below is addressed as one pointer and a constant per step.
    u_ptr += row * length * E + channel_J1C
    delta_ptr += row * length * E + channel_J1C
    y_ptr += row * length * E + channel_J1C
    b_ptr += row * length * BC_ROW + state_JS
    c_ptr += row * length * BC_ROW + state_JS
    borders_ptr += (row * (tl.cdiv(length, K) - 1) - 1) * N * E + matrix_JSC

    h_JSC = tl.zeros((J, S, C), tl.float32)
    for start in range(0, tl.load(steps_ptr + row % batch), K):
        if KEEP:
            tl.store(borders_ptr, h_JSC, mask=real_JSC & (start > 0))
        for group in tl.static_range(0, K, GROUP):
            us = ()
            deltas = ()
            bs = ()
            cs = ()
            for t in tl.static_range(group, group + GROUP):
                # Beyond the end delta = 0 leaves the state as it is.
                exists = _exists(start + t, length, EVEN)
                us += (tl.load(u_ptr + t * E, mask=real_J1C & exists, other=0.0).to(tl.float32),)
                deltas += (
                    tl.load(delta_ptr + t * E, mask=real_J1C & exists, other=0.0).to(tl.float32),
                )
                bs += (
                    tl.load(b_ptr + t * BC_ROW, mask=real_JS & exists, other=0.0).to(tl.float32),
                )
                cs += (
                    tl.load(c_ptr + t * BC_ROW, mask=real_JS & exists, other=0.0).to(tl.float32),
                )
            for t in tl.static_range(group, group + GROUP):
                u_J1C, delta_J1C = us[t - group], deltas[t - group]
                h_JSC = (
                    tl.exp2(delta_J1C * a_JSC) * h_JSC
                    + (delta_J1C * u_J1C) * bs[t - group][:, :, None]
                )
                y_J1C = _over_states(h_JSC * cs[t - group][:, :, None])
                y_J1C += skip_J1C * u_J1C
                tl.store(y_ptr + t * E, y_J1C, mask=first_J1C & _exists(start + t, length, EVEN))
        u_ptr += K * E
        delta_ptr += K * E
        y_ptr += K * E
        b_ptr += K * BC_ROW
        c_ptr += K * BC_ROW
        borders_ptr += N * E


@triton.jit(do_not_specialize=["population"])  # one kernel for any number of members
def _backward_kernel(
    dy_ptr, u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, steps_ptr, borders_ptr,
    du_ptr, draw_ptr, da_ptr, db_ptr, dc_ptr, dskip_ptr,
    population, batch, length,
    E: tl.constexpr, N: tl.constexpr, S: tl.constexpr, J: tl.constexpr, C: tl.constexpr,
    K: tl.constexpr, EVEN: tl.constexpr,
    BC_ROW: tl.constexpr, DRAW_ROW: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    blocks = tl.cdiv(E, C)
    row_blocks = tl.cdiv(batch, ROWS)
    block = program % blocks
    row_block = (program // blocks) % row_blocks
    member = (program // blocks // row_blocks).to(tl.int64)
    channel_J1C, state_JS, real_J1C, real_JS = _places(block, E, N, S, J, C)
    first_J1C = _first(real_J1C, J)
    matrix_JSC, real_JSC = state_JS[:, :, None] * E + channel_J1C, real_JS[:, :, None] & real_J1C
    a_JSC = tl.load(a_ptr + member * N * E + matrix_JSC, mask=real_JSC, other=0.0)
    skip_J1C = tl.load(skip_ptr + member * E + channel_J1C, mask=real_J1C, other=0.0)
    dskip_J1C = tl.zeros((J, 1, C), tl.float32)
    da_JSC = tl.zeros((J, S, C), tl.float32)
    chunks = tl.cdiv(length, K)
    partial = block.to(tl.int64) * population * batch * length * N  # of sums over its channels

    for row_of_member in range(row_block * ROWS, tl.minimum(row_block * ROWS + ROWS, batch)):
        row = member * batch + row_of_member
        carry_JSC = tl.zeros((J, S, C), tl.float32)
        read = tl.cdiv(tl.load(steps_ptr + row_of_member), K)
        for chunk in range(read, chunks):  # y is not read here
            for t in tl.static_range(K):
                step = row * length + chunk * K + t
                exists = _exists(chunk * K + t, length, EVEN)
                none_J1C, none_JS = tl.zeros((J, 1, C), tl.float32), tl.zeros((J, S), tl.float32)
                tl.store(du_ptr + step * E + channel_J1C, none_J1C, mask=first_J1C & exists)
                tl.store(
                    draw_ptr + step * DRAW_ROW + channel_J1C, none_J1C, mask=first_J1C & exists
                )
                tl.store(db_ptr + partial + step * N + state_JS, none_JS, mask=real_JS & exists)
                tl.store(dc_ptr + partial + step * N + state_JS, none_JS, mask=real_JS & exists)
        for chunk in range(read - 1, -1, -1):
            start = chunk * K
            wide_J1C = (row * length + start) * E + channel_J1C
            narrow_JS = (row * length + start) * N + state_JS
            border_JSC = (row * (chunks - 1) + chunk - 1) * N * E + matrix_JSC
            h_JSC = tl.load(borders_ptr + border_JSC, mask=real_JSC & (chunk > 0), other=0.0)
            u_at, delta_at, dy_at = u_ptr + wide_J1C, delta_ptr + wide_J1C, dy_ptr + wide_J1C
            read_JS = (row * length + start) * BC_ROW + state_JS
            b_at, c_at, db_at, dc_at = (
                b_ptr + read_JS,
                c_ptr + read_JS,
                db_ptr + partial + narrow_JS,
                dc_ptr + partial + narrow_JS,
            )
            draw_at = draw_ptr + (row * length + start) * DRAW_ROW + channel_J1C
            us = ()
            deltas = ()
            dys = ()
            bs = ()
            for t in tl.static_range(K):
                exists = _exists(start + t, length, EVEN)
                us += (tl.load(u_at + t * E, mask=real_J1C & exists, other=0.0).to(tl.float32),)
                deltas += (
                    tl.load(delta_at + t * E, mask=real_J1C & exists, other=0.0).to(tl.float32),
                )
                dys += (tl.load(dy_at + t * E, mask=real_J1C & exists, other=0.0).to(tl.float32),)
                bs += (tl.load(b_at + t * BC_ROW, mask=real_JS & exists, other=0.0).to(tl.float32),)
            before = ()  # the state before each step
            for t in tl.static_range(K):
                before += (h_JSC,)
                h_JSC = tl.exp2(deltas[t] * a_JSC) * h_JSC + (deltas[t] * us[t]) * bs[t][:, :, None]
                tl.store(
                    dc_at + t * N,
                    tl.sum(h_JSC * dys[t], 2),
                    mask=real_JS & _exists(start + t, length, EVEN),
                )
            for t in tl.static_range(K - 1, -1, -1):
                # Read again, from the cache: registers are full of states by now.
                exists = _exists(start + t, length, EVEN)
                u_J1C = tl.load(u_at + t * E, mask=real_J1C & exists, other=0.0).to(tl.float32)
                delta_J1C = tl.load(delta_at + t * E, mask=real_J1C & exists, other=0.0).to(
                    tl.float32
                )
                dy_J1C = tl.load(dy_at + t * E, mask=real_J1C & exists, other=0.0).to(tl.float32)
                b_JS = tl.load(b_at + t * BC_ROW, mask=real_JS & exists, other=0.0).to(tl.float32)
                c_JS = tl.load(c_at + t * BC_ROW, mask=real_JS & exists, other=0.0).to(tl.float32)

                g_JSC = dy_J1C * c_JS[:, :, None] + carry_JSC
                carry_JSC = tl.exp2(delta_J1C * a_JSC) * g_JSC
                dlog_JSC = carry_JSC * before[t]  # gradient of delta_t A
                da_JSC += dlog_JSC * delta_J1C
                gb_J1C = _over_states(g_JSC * b_JS[:, :, None])
                du_J1C = gb_J1C * delta_J1C
                ddelta_J1C = gb_J1C * u_J1C + _over_states(dlog_JSC * a_JSC) * LN2
                du_J1C += dy_J1C * skip_J1C
                dskip_J1C += dy_J1C * u_J1C
                ddelta_J1C *= _one_minus_exp(delta_J1C)
                tl.store(du_ptr + wide_J1C + t * E, du_J1C, mask=first_J1C & exists)
                tl.store(draw_at + t * DRAW_ROW, ddelta_J1C, mask=first_J1C & exists)
                tl.store(
                    db_at + t * N, tl.sum(g_JSC * (delta_J1C * u_J1C), 2), mask=real_JS & exists
                )

    group = row_block * population + member
    tl.store(da_ptr + group * N * E + matrix_JSC, da_JSC, mask=real_JSC)
    tl.store(dskip_ptr + group * E + channel_J1C, dskip_J1C, mask=first_J1C)


@triton.jit
def _places(
    block, E: tl.constexpr, N: tl.constexpr, S: tl.constexpr, J: tl.constexpr, C: tl.constexpr
):
    """The channels of a block, once for each of the J threads that need them;
    the states; which of them there are.
    """
    channel_J1C = tl.broadcast_to(block * C + tl.arange(0, C)[None, None, :], (J, 1, C))
    state_JS = tl.arange(0, J)[:, None] * S + tl.arange(0, S)[None, :]
    # Known to the compiler to be true where nothing is padded.
    real_J1C = tl.full((J, 1, C), 1, tl.int1) if E % C == 0 else channel_J1C < E
    real_JS = tl.full((J, S), 1, tl.int1) if N == J * S else state_JS < N
    return channel_J1C, state_JS, real_J1C, real_JS


@triton.jit
def _exists(t, length, EVEN: tl.constexpr):
    """Whether there is a step t: always, if chunks fill the length. (1, 1), since the interpreter
    mistypes a single truth.
    """
    return tl.full((1, 1), 1, tl.int1) if EVEN else tl.full((1, 1), t, tl.int32) < length


@triton.jit
def _first(real_J1C, J: tl.constexpr):
    """Of the J threads that have a result only one stores it."""
    return real_J1C & (tl.arange(0, J)[:, None, None] == 0)


@triton.jit
def _over_states(x_JSC):
    """The sum over J and S, in all threads: (J, 1, C)."""
    sum_J1C = tl.sum(x_JSC, 1, keep_dims=True)
    return tl.broadcast_to(tl.sum(sum_J1C, 0, keep_dims=True), sum_J1C.shape)


@triton.jit
def _one_minus_exp(x):
    """1 - exp(-x), the derivative of softplus in terms of its value;
    a series where the difference would cancel.
    """
    series = x * (1 + x * (-1 / 2 + x * (1 / 6 + x * (-1 / 24 + x * (1 / 120)))))
    return tl.where(x < 0.125, series, 1 - tl.exp2(x * -LOG2E))


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
