"""The selective scan in plain PyTorch, sequential in time,
with the Euler input of the official code.

    h_t = exp(delta_t A) * h_{t-1} + (delta_t u_t) B_t        y_t = h_t C_t

Shapes: P population, B batch, L length, E channels, N state, R rank of the step size, O = R + 2 N,
T steps of one chunk, K chunks.

The backward is written out: g_t = dy_t C_t + a_{t+1} g_{t+1} is the gradient of the state,
everything else follows from it. Autograd over a Python loop would copy a full-length tensor at
every step. Only the states at chunk borders are kept; those inside a chunk are computed again, so
memory is L/T + T states instead of L. A CPU takes a few rows at a time.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.linear import linear

CHUNK = 16  # about sqrt(L) at the lengths of the study, which makes L/T + T smallest
# Floats of one chunk and member that stay in a cache: 5x faster than the whole batch at width 64,
# length 64 (docs/decisions/selective-scan-on-a-cpu.md). It must not depend on P, otherwise the
# order of the sums over rows, and so the bits of dA, would depend on the other members.
CACHE_FLOATS = 2**18


def selection(
    u: Tensor, select_PEO: Tensor, raise_PRE: Tensor, bias_PE: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return step sizes before softplus (P, ..., E), B and C (P, ..., N), from u (P, ..., E)."""
    rank, columns = raise_PRE.shape[1], select_PEO.shape[2]
    state = (columns - rank) // 2
    low, b, c = linear(u, select_PEO).split((rank, state, state), dim=-1)
    return linear(low, raise_PRE, bias_PE), b, c


def scan(
    u_PBLE: Tensor, raw_PBLE: Tensor, a_PEN: Tensor, b_PBLN: Tensor, c_PBLN: Tensor, skip_PE: Tensor
) -> Tensor:
    """Return the recurrence with delta = softplus(raw), plus skip u."""
    y_PBLE = recurrence(u_PBLE, F.softplus(raw_PBLE), a_PEN, b_PBLN, c_PBLN)
    return torch.addcmul(y_PBLE, u_PBLE, skip_PE[:, None, None])


def recurrence(
    u_PBLE: Tensor, delta_PBLE: Tensor, a_PEN: Tensor, b_PBLN: Tensor, c_PBLN: Tensor
) -> Tensor:
    """Return y_PBLE of the equations above, differentiable in all five arguments.

    `a` must be negative for a stable memory.
    """
    y_PBLE: Tensor = _Recurrence.apply(u_PBLE, delta_PBLE, a_PEN, b_PBLN, c_PBLN)
    return y_PBLE


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        population, batch, length, channels = u.shape
        y_PBLE = torch.empty_like(u)
        borders_KPBEN = u.new_empty(-(-length // CHUNK), population, batch, channels, a.shape[-1])
        for rows in _row_blocks(u, a):
            _forward_rows(
                u[:, rows],
                delta[:, rows],
                a,
                b[:, rows],
                c[:, rows],
                y_PBLE[:, rows],
                borders_KPBEN[:, :, rows],
            )
        ctx.save_for_backward(u, delta, a, b, c, borders_KPBEN)
        return y_PBLE

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        u, delta, a, b, c, borders = ctx.saved_tensors
        du, ddelta, db, dc = (torch.empty_like(x) for x in (u, delta, b, c))
        da = torch.zeros_like(a)
        for rows in _row_blocks(u, a):
            outputs = (du[:, rows], ddelta[:, rows], db[:, rows], dc[:, rows])
            inputs = (grads[0][:, rows], u[:, rows], delta[:, rows], b[:, rows], c[:, rows])
            da += _backward_rows(inputs, a, borders[:, :, rows], outputs)
        return du, ddelta, da, db, dc


def _row_blocks(u_PBLE: Tensor, a_PEN: Tensor) -> list[slice]:
    batch = u_PBLE.shape[1]
    size = (
        max(1, CACHE_FLOATS // (CHUNK * a_PEN[0].numel())) if u_PBLE.device.type == "cpu" else batch
    )
    return [slice(start, start + size) for start in range(0, batch, size)]


def _decays_and_inputs(
    u_PBTE: Tensor, delta_PBTE: Tensor, a_PEN: Tensor, b_PBTN: Tensor
) -> tuple[Tensor, Tensor]:
    decay_PBTEN = (delta_PBTE[..., None] * a_PEN[:, None, None]).exp_()
    input_PBTEN = (delta_PBTE * u_PBTE)[..., None] * b_PBTN[..., None, :]
    return decay_PBTEN, input_PBTEN


def _states(h_PBEN: Tensor, decay_PBTEN: Tensor, input_PBTEN: Tensor) -> Tensor:
    """Compute all states of a chunk, overwriting its inputs."""
    for t in range(input_PBTEN.shape[2]):
        h_PBEN = input_PBTEN[:, :, t].addcmul_(decay_PBTEN[:, :, t], h_PBEN)
    return input_PBTEN


def _forward_rows(
    u: Tensor,
    delta: Tensor,
    a_PEN: Tensor,
    b: Tensor,
    c: Tensor,
    y_PBLE: Tensor,
    borders_KPBEN: Tensor,
) -> None:
    h_PBEN = torch.zeros_like(borders_KPBEN[0])
    for k, border_PBEN in enumerate(borders_KPBEN):
        part = slice(k * CHUNK, (k + 1) * CHUNK)
        border_PBEN.copy_(h_PBEN)
        decays, inputs = _decays_and_inputs(u[:, :, part], delta[:, :, part], a_PEN, b[:, :, part])
        states_PBTEN = _states(h_PBEN, decays, inputs)
        y_PBLE[:, :, part] = _over_states(states_PBTEN, c[:, :, part])
        h_PBEN = states_PBTEN[:, :, -1]


def _backward_rows(
    rows: tuple[Tensor, ...], a_PEN: Tensor, borders_KPBEN: Tensor, outputs: tuple[Tensor, ...]
) -> Tensor:
    """From dy, u, delta, b, c of some rows fill du, ddelta, db, dc; return their part of dA."""
    du, ddelta, db, dc = outputs
    da_PEN = torch.zeros_like(a_PEN)
    g_PBEN = torch.zeros_like(borders_KPBEN[0])  # a_{t+1} g_{t+1}, carried backwards in time
    for k in reversed(range(len(borders_KPBEN))):
        part = slice(k * CHUNK, (k + 1) * CHUNK)
        dy_PBTE, u_PBTE, delta_PBTE, b_PBTN, c_PBTN = (x[:, :, part] for x in rows)
        decays, inputs = _decays_and_inputs(u_PBTE, delta_PBTE, a_PEN, b_PBTN)
        states = _states(borders_KPBEN[k], decays, inputs)
        dc[:, :, part] = _over_channels(states, dy_PBTE)
        g_PBTEN = dy_PBTE[..., None] * c_PBTN[..., None, :]
        for t in reversed(range(g_PBTEN.shape[2])):
            g_PBEN = g_PBTEN[:, :, t].add_(g_PBEN) * decays[:, :, t]
        db[:, :, part] = _over_channels(g_PBTEN, delta_PBTE * u_PBTE)
        gb_PBTE = _over_states(g_PBTEN, b_PBTN)
        du[:, :, part] = gb_PBTE * delta_PBTE
        # The gradient of delta_t A: decay * g * previous state.
        dlog_PBTEN = decays.mul_(g_PBTEN)
        dlog_PBTEN[:, :, 1:].mul_(states[:, :, :-1])
        dlog_PBTEN[:, :, 0].mul_(borders_KPBEN[k])
        ddelta[:, :, part] = gb_PBTE * u_PBTE + (dlog_PBTEN * a_PEN[:, None, None]).sum(-1)
        da_PEN += dlog_PBTEN.mul_(delta_PBTE[..., None]).sum((1, 2))
    return da_PEN


def _over_states(x_PBTEN: Tensor, weight_PBTN: Tensor) -> Tensor:
    return (x_PBTEN @ weight_PBTN[..., None]).squeeze(-1)


def _over_channels(x_PBTEN: Tensor, weight_PBTE: Tensor) -> Tensor:
    return (weight_PBTE[..., None, :] @ x_PBTEN).squeeze(-2)
