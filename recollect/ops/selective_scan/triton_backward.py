"""The walk against time that computes the gradients; equations and names are in triton_scan.py."""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

import triton
import triton.language as tl

from recollect.ops.selective_scan.triton_tiles import (
    LOG2E,
    one_thread,
    over_states,
    places,
    there_is,
)

LN2 = tl.constexpr(0.6931471805599453)


@triton.jit(do_not_specialize=["population"])  # one kernel for any number of members
def backward_kernel(
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
    channel_J1C, state_JS, real_J1C, real_JS = places(block, E, N, S, J, C)
    first_J1C = one_thread(real_J1C, J)
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
        for chunk in range(read, chunks):  # y is not read in these chunks
            for t in tl.static_range(K):
                step = row * length + chunk * K + t
                exists = there_is(chunk * K + t, length, EVEN)
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
                exists = there_is(start + t, length, EVEN)
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
                    mask=real_JS & there_is(start + t, length, EVEN),
                )
            for t in tl.static_range(K - 1, -1, -1):
                # Loaded again, from the cache, because the registers are full of states here.
                exists = there_is(start + t, length, EVEN)
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
                gb_J1C = over_states(g_JSC * b_JS[:, :, None])
                du_J1C = gb_J1C * delta_J1C
                ddelta_J1C = gb_J1C * u_J1C + over_states(dlog_JSC * a_JSC) * LN2
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
def _one_minus_exp(x):
    """Return 1 - exp(-x), the derivative of softplus in terms of its value, by a series where the
    difference would cancel.
    """
    series = x * (1 + x * (-1 / 2 + x * (1 / 6 + x * (-1 / 24 + x * (1 / 120)))))
    return tl.where(x < 0.125, series, 1 - tl.exp2(x * -LOG2E))
