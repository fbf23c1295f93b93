"""Functions that the walks of the selective scan share: channels and states of a program, sums over
them. Names and shapes as in triton_scan.py.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def places(
    block, E: tl.constexpr, N: tl.constexpr, S: tl.constexpr, J: tl.constexpr, C: tl.constexpr
):
    """Return the channels of a block, once for each of the J threads that need them; the states;
    and which of them are valid.
    """
    channel_J1C = tl.broadcast_to(block * C + tl.arange(0, C)[None, None, :], (J, 1, C))
    state_JS = tl.arange(0, J)[:, None] * S + tl.arange(0, S)[None, :]
    # The compiler knows this to be true if nothing is padded.
    real_J1C = tl.full((J, 1, C), 1, tl.int1) if E % C == 0 else channel_J1C < E
    real_JS = tl.full((J, S), 1, tl.int1) if N == J * S else state_JS < N
    return channel_J1C, state_JS, real_J1C, real_JS


@triton.jit
def there_is(t, length, EVEN: tl.constexpr):
    """Whether step t exists: always, if chunks fill the length. (1, 1), since the interpreter gives
    a scalar condition a wrong type.
    """
    return tl.full((1, 1), 1, tl.int1) if EVEN else tl.full((1, 1), t, tl.int32) < length


@triton.jit
def one_thread(real_J1C, J: tl.constexpr):
    """Select one of the J threads that have a result, to store it."""
    return real_J1C & (tl.arange(0, J)[:, None, None] == 0)


@triton.jit
def over_states(x_JSC):
    """Return the sum over J and S, in all threads: (J, 1, C)."""
    sum_J1C = tl.sum(x_JSC, 1, keep_dims=True)
    return tl.broadcast_to(tl.sum(sum_J1C, 0, keep_dims=True), sum_J1C.shape)
