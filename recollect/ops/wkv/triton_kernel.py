"""Kernels of `wkv`: one thread follows a channel of a sequence through time,
forwards and then backwards.

Forwards as in plain.py, with the mean m and the log weight a of the past in registers; both are
stored for the backward, where the weights of the present and the past in y_t and in m_{t+1} follow
from them:

    p = s(k_t + u - a_t), q = 1 - p          j = s(k_t - w - a_t), r = 1 - j
    surprise = v_t - m_t
    dp = dy_t surprise p q                   dj = dm surprise j r
    dv_t = p dy_t + j dm                     dk_t = dp + dj + j da
    dw += r da - dj                          du += dp
    dm <- q dy_t + r dm                      da <- r da - dp - dj

dm and da are the gradients that reach m_{t+1} and a_{t+1} from later positions. k, v, y are float32
or bfloat16, everything else float32.

Shapes: P population, B batch, L length, D channels.
"""

# A kernel's parameters have Triton's types, which Python's checker cannot know.
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, misc"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton_rows import sum_blocks

# Two channels for each thread of two warps: a wider tile would leave a small population too few
# programs. A narrower one has too few bytes in flight when 32 programs, the most that a
# multiprocessor takes, wait for memory.
TILE, WARPS = 128, 2


def wkv(k_PBLD: Tensor, v_PBLD: Tensor, w_PD: Tensor, u_PD: Tensor) -> Tensor:
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in (k_PBLD, v_PBLD, w_PD, u_PD))
    return _WKV.apply(k_PBLD, v_PBLD, w_PD, u_PD, keep)


class _WKV(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, k: Tensor, v: Tensor, w: Tensor, u: Tensor, keep: bool) -> Tensor:
        k, v = _dense_channels(k), _dense_channels(v)
        w, u = w.contiguous(), u.contiguous()
        y_PBLD = torch.empty(k.shape, device=k.device, dtype=k.dtype)
        log_PBLD, mean_PBLD = (
            torch.empty(k.shape if keep else 0, device=k.device, dtype=torch.float32)
            for _ in range(2)
        )
        tile = _tile(k)
        _forward[_grid(k, tile)](
            k, v, w, u, y_PBLD, log_PBLD, mean_PBLD,
            *k.shape[1:], *k.stride()[:3], *v.stride()[:3], KEEP=keep, **tile, num_warps=WARPS,
        )  # fmt: skip
        ctx.save_for_backward(k, v, w, u, log_PBLD, mean_PBLD)
        return y_PBLD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        k, v, w, u, log_PBLD, mean_PBLD = ctx.saved_tensors
        dy = _dense_channels(grads[0])
        dk_PBLD, dv_PBLD = (torch.empty(k.shape, device=k.device, dtype=k.dtype) for _ in range(2))
        population, batch, _, channels = k.shape
        dw_PBD, du_PBD = (
            torch.empty(population, batch, channels, device=k.device, dtype=torch.float32)
            for _ in range(2)
        )
        tile = _tile(k)
        _backward[_grid(k, tile)](
            k, v, w, u, log_PBLD, mean_PBLD, dy, dk_PBLD, dv_PBLD, dw_PBD, du_PBD,
            *k.shape[1:], *k.stride()[:3], *v.stride()[:3], *dy.stride()[:3], **tile,
            num_warps=WARPS,
        )  # fmt: skip
        return dk_PBLD, dv_PBLD, sum_blocks(dw_PBD), sum_blocks(du_PBD), None


def _dense_channels(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _tile(k_PBLD: Tensor) -> dict[str, int]:
    columns = min(TILE, triton.next_power_of_2(k_PBLD.shape[-1]))
    return {"ROWS": TILE // columns, "COLUMNS": columns}


def _grid(k_PBLD: Tensor, tile: dict[str, int]) -> tuple[int]:
    population, batch, _, channels = k_PBLD.shape
    return (population * triton.cdiv(batch, tile["ROWS"]) * triton.cdiv(channels, tile["COLUMNS"]),)


@triton.jit
def _place(batch, channels, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return the member, rows and channels of this program, and which of them are valid."""
    parts, tiles = tl.cdiv(channels, COLUMNS), tl.cdiv(batch, ROWS)
    index = tl.program_id(0) // parts
    column = (tl.program_id(0) % parts) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    member = (index // tiles).to(tl.int64)
    row = ((index % tiles) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    return member, row, column, (row < batch) & (column < channels)


@triton.jit
def _shares(x):
    """Return s(x) and 1 - s(x), each to full precision, and log(1 + e^-|x|)."""
    small = tl.exp(-tl.abs(x))
    large_share = 1 / (1 + small)
    small_share = small * large_share
    return (
        tl.where(x >= 0, large_share, small_share),
        tl.where(x >= 0, small_share, large_share),
        tl.log(1 + small),
    )


@triton.jit
def _forward(
    k_ptr, v_ptr, w_ptr, u_ptr, y_ptr, log_ptr, mean_ptr, batch, length, channels,
    k_member, k_row, k_time, v_member, v_row, v_time,
    KEEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    member, row, column, inside = _place(batch, channels, ROWS, COLUMNS)
    k_ptr += member * k_member + row * k_row + column
    v_ptr += member * v_member + row * v_row + column
    out = (member * batch + row) * length * channels + column
    w = tl.load(w_ptr + member * channels + column, mask=column < channels, other=0.0)
    u = tl.load(u_ptr + member * channels + column, mask=column < channels, other=0.0)
    mean = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    log = tl.full([ROWS, COLUMNS], float("-inf"), dtype=tl.float32)
    for _time in range(length):
        k = tl.load(k_ptr, mask=inside, other=0.0).to(tl.float32)
        v = tl.load(v_ptr, mask=inside, other=0.0).to(tl.float32)
        if KEEP:
            tl.store(log_ptr + out, log, mask=inside)
            tl.store(mean_ptr + out, mean, mask=inside)
        present, _, _ = _shares(k + u - log)
        tl.store(y_ptr + out, (mean + present * (v - mean)).to(y_ptr.dtype.element_ty), mask=inside)
        joining, _, excess = _shares(k - w - log)
        mean += joining * (v - mean)
        log = tl.maximum(log + w, k) + excess
        k_ptr += k_time
        v_ptr += v_time
        out += channels


@triton.jit
def _backward(
    k_ptr, v_ptr, w_ptr, u_ptr, log_ptr, mean_ptr, dy_ptr, dk_ptr, dv_ptr, dw_ptr, du_ptr, batch,
    length, channels,
    k_member, k_row, k_time, v_member, v_row, v_time, dy_member, dy_row, dy_time,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    member, row, column, inside = _place(batch, channels, ROWS, COLUMNS)
    last = length - 1
    k_ptr += member * k_member + row * k_row + last * k_time + column
    v_ptr += member * v_member + row * v_row + last * v_time + column
    dy_ptr += member * dy_member + row * dy_row + last * dy_time + column
    out = ((member * batch + row) * length + last) * channels + column
    w = tl.load(w_ptr + member * channels + column, mask=column < channels, other=0.0)
    u = tl.load(u_ptr + member * channels + column, mask=column < channels, other=0.0)
    dmean = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    dlog = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    dw = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    du = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for _time in range(length):
        k = tl.load(k_ptr, mask=inside, other=0.0).to(tl.float32)
        v = tl.load(v_ptr, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr, mask=inside, other=0.0).to(tl.float32)
        log = tl.load(log_ptr + out, mask=inside, other=0.0)
        mean = tl.load(mean_ptr + out, mask=inside, other=0.0)
        present, absent, _ = _shares(k + u - log)
        joining, staying, _ = _shares(k - w - log)
        surprise = v - mean
        dpresent = dy * surprise * present * absent
        djoining = dmean * surprise * joining * staying
        tl.store(
            dv_ptr + out, (dy * present + dmean * joining).to(dv_ptr.dtype.element_ty), mask=inside
        )
        tl.store(
            dk_ptr + out,
            (dpresent + djoining + dlog * joining).to(dk_ptr.dtype.element_ty),
            mask=inside,
        )
        dw += dlog * staying - djoining
        du += dpresent
        dmean = dy * absent + dmean * staying
        dlog = dlog * staying - dpresent - djoining
        k_ptr -= k_time
        v_ptr -= v_time
        dy_ptr -= dy_time
        out -= channels
    tl.store(dw_ptr + (member * batch + row) * channels + column, dw, mask=inside)
    tl.store(du_ptr + (member * batch + row) * channels + column, du, mask=inside)
