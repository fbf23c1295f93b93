"""RWKV-4's mean of values (Peng et al. 2023), one channel at a time,
plain PyTorch, sequential in time.

    y_t =   (sum_{i<t} e^{(t-1-i) w + k_i} v_i + e^{u + k_t} v_t)
          / (sum_{i<t} e^{(t-1-i) w + k_i}     + e^{u + k_t})

Shapes: P population, B batch, L length, D channels; k, v, y are (P, B, L, D), w <= 0 and u are (P,
D).

No exponential of a key is ever taken. For the positions before t two numbers are kept, the mean m_t
of their values and the logarithm a_t of their total weight. All other factors are fractions between
0 and 1:

    y_t = m_t + s(k_t + u - a_t) (v_t - m_t)            s(x) = 1 / (1 + e^{-x})
    m_{t+1} = m_t + s(k_t - w - a_t) (v_t - m_t)
    a_{t+1} = log(e^{a_t + w} + e^{k_t})                a_0 = -inf

The backward is written out: gradients of m and of a run backwards in time, both shrinking by s(a_t
+ w - k_t) per step. Autograd over a Python loop would copy a full-length tensor at every step.
"""

import math
from typing import Any

import torch
from torch import Tensor

# Numerator, denominator and exponent, each (P, B, D): both sums are e^exponent times the stored
# values, as in the official code.
Past = tuple[Tensor, Tensor, Tensor]


def wkv(k_PBLD: Tensor, v_PBLD: Tensor, w_PD: Tensor, u_PD: Tensor) -> Tensor:
    """Return y_PBLD of the first equation above, differentiable in all four arguments."""
    return _WKV.apply(k_PBLD, v_PBLD, w_PD, u_PD)


class _WKV(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, k: Tensor, v: Tensor, w_PD: Tensor, u_PD: Tensor) -> Tensor:
        log_PBLD = _log_weights(k, w_PD)
        mean_PBLD = _means(v, torch.sigmoid(_over_past(k, -w_PD, log_PBLD)))
        ctx.save_for_backward(k, v, w_PD, u_PD, log_PBLD, mean_PBLD)
        return torch.lerp(mean_PBLD, v, torch.sigmoid(_over_past(k, u_PD, log_PBLD)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        k, v, w_PD, u_PD, log_PBLD, mean_PBLD = ctx.saved_tensors
        (dy,) = grads
        present, absent = _shares(_over_past(k, u_PD, log_PBLD))  # of v_t and of the past in y_t
        joining, staying = _shares(_over_past(k, -w_PD, log_PBLD))  # and in m_{t+1}
        dmean = _from_later(dy * absent, staying)
        dv = dy * present + dmean * joining
        surprise = v - mean_PBLD
        dpresent = dy * surprise * present * absent
        djoining = dmean * surprise * joining * staying
        dlog = _from_later(-dpresent - djoining, staying)
        dk = dpresent + djoining + dlog * joining
        return dk, dv, (dlog * staying - djoining).sum((1, 2)), dpresent.sum((1, 2))


def wkv_step(
    k_PBD: Tensor, v_PBD: Tensor, w_PD: Tensor, u_PD: Tensor, past: Past
) -> tuple[Tensor, Past]:
    """Return the output at one more position, and the past with it; it starts as 0, 0 and -inf."""
    num, den, _ = _joined(past, k_PBD + u_PD[:, None], v_PBD)
    decayed = (*past[:2], past[2] + w_PD[:, None])
    return num / den, _joined(decayed, k_PBD, v_PBD)


def _joined(past: Past, k_PBD: Tensor, v_PBD: Tensor) -> Past:
    num, den, exponent = past
    largest = torch.maximum(exponent, k_PBD)
    old, new = (exponent - largest).exp(), (k_PBD - largest).exp()
    return old * num + new * v_PBD, old * den + new, largest


def _over_past(k_PBLD: Tensor, plus_PD: Tensor, log_PBLD: Tensor) -> Tensor:
    return k_PBLD + plus_PD[:, None, None] - log_PBLD


def _shares(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return s(x) and 1 - s(x), each to full precision."""
    return torch.sigmoid(x), torch.sigmoid(-x)


def _log_weights(k_PBLD: Tensor, w_PD: Tensor) -> Tensor:
    """Return a_t at every position."""
    log_PBLD = torch.empty_like(k_PBLD)
    log_PBLD[:, :, 0] = -math.inf
    for t in range(1, k_PBLD.shape[2]):
        log_PBLD[:, :, t] = torch.logaddexp(
            log_PBLD[:, :, t - 1] + w_PD[:, None], k_PBLD[:, :, t - 1]
        )
    return log_PBLD


def _means(v_PBLD: Tensor, joining_PBLD: Tensor) -> Tensor:
    """Return m_t at every position."""
    mean_PBLD = torch.empty_like(v_PBLD)
    mean_PBLD[:, :, 0] = 0
    for t in range(1, v_PBLD.shape[2]):
        mean_PBLD[:, :, t] = torch.lerp(
            mean_PBLD[:, :, t - 1], v_PBLD[:, :, t - 1], joining_PBLD[:, :, t - 1]
        )
    return mean_PBLD


def _from_later(given_PBLD: Tensor, staying_PBLD: Tensor) -> Tensor:
    """Return what reaches m_{t+1} or a_{t+1} at every position t, if every position contributes
    `given` and passes on the fraction `staying`.
    """
    later_PBLD = torch.empty_like(given_PBLD)
    later_PBLD[:, :, -1] = 0
    for t in reversed(range(1, given_PBLD.shape[2])):
        later_PBLD[:, :, t - 1] = torch.addcmul(
            given_PBLD[:, :, t], staying_PBLD[:, :, t], later_PBLD[:, :, t]
        )
    return later_PBLD
