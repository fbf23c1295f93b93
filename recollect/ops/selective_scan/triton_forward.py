"""The walk along time that computes y; equations and names are in triton_scan.py."""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

import triton
import triton.language as tl

from recollect.ops.selective_scan.triton_tiles import one_thread, over_states, places, there_is


@triton.jit
def forward_kernel(
    u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, steps_ptr, y_ptr, borders_ptr,
    batch, length,
    E: tl.constexpr, N: tl.constexpr, S: tl.constexpr, J: tl.constexpr, C: tl.constexpr,
    K: tl.constexpr, EVEN: tl.constexpr,
    BC_ROW: tl.constexpr, KEEP: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    row = (program // tl.cdiv(E, C)).to(tl.int64)  # among the P * B
    member = row // batch
    channel_J1C, state_JS, real_J1C, real_JS = places(program % tl.cdiv(E, C), E, N, S, J, C)
    first_J1C = one_thread(real_J1C, J)
    matrix_JSC, real_JSC = state_JS[:, :, None] * E + channel_J1C, real_JS[:, :, None] & real_J1C
    a_JSC = tl.load(a_ptr + member * N * E + matrix_JSC, mask=real_JSC, other=0.0)
    skip_J1C = tl.load(skip_ptr + member * E + channel_J1C, mask=real_J1C, other=0.0)
    # Everything below is addressed by one pointer and a constant per step.
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
                # Beyond the end, delta = 0 leaves the state unchanged.
                exists = there_is(start + t, length, EVEN)
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
                y_J1C = over_states(h_JSC * cs[t - group][:, :, None])
                y_J1C += skip_J1C * u_J1C
                tl.store(y_ptr + t * E, y_J1C, mask=first_J1C & there_is(start + t, length, EVEN))
        u_ptr += K * E
        delta_ptr += K * E
        y_ptr += K * E
        b_ptr += K * BC_ROW
        c_ptr += K * BC_ROW
        borders_ptr += N * E
