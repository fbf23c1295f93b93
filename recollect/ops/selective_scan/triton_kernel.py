"""The selective scan on a GPU, with the products that choose delta, B and C inside; the walk along
time is in triton_scan.py.

    [d, B, C] = u W        delta = softplus(d V + bias)        y = scan(u, delta, A, B, C) + skip u

Shapes: P population, B batch, L length, E channels, N states, R rank of delta, M = B L rows of one
member.

Products and scan together need fewer passes over memory than apart: B and C are read from the
product where they are; the kernel of the scan writes the gradients of delta, B and C into one
tensor, which the backward of the product takes as it is; and the gradient of u is added up by that
product. R is 4 at width 64, and tensor cores want columns in eights: where R is not a multiple of
8, W's part for d is multiplied with V first, so that there is one product with E + 2 N columns.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.linear import sum_over_rows
from recollect.ops.selective_scan.triton_scan import base_two, run_backward, run_forward
from recollect.ops.selective_scan.triton_tiles import LOG2E

STEP_ELEMENTS = 2048  # per program of the step sizes: 4 warps, 16 per thread


def selective_scan(
    u_PBLE: Tensor,
    select_PEO: Tensor,
    raise_PRE: Tensor,
    bias_PE: Tensor,
    a_log_PEN: Tensor,
    skip_PE: Tensor,
    steps_B: Tensor | None = None,
) -> Tensor:
    """Return y_PBLE; W is `select` with O = R + 2 N columns, V is `raise`, A = -exp(a_log).

    With `steps` (int32) y is undefined after so many steps of each row, and must not be read there.
    """
    tensors = (u_PBLE, select_PEO, raise_PRE, bias_PE, a_log_PEN, skip_PE)
    if steps_B is None:  # y is needed everywhere; the same kernel, compiled once
        batch, length = u_PBLE.shape[1:3]
        steps_B = torch.full((batch,), length, dtype=torch.int32, device=u_PBLE.device)
    return _SelectiveScan.apply(
        *tensors, steps_B, torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    )


class _SelectiveScan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        u: Tensor,
        select: Tensor,
        up: Tensor,
        bias: Tensor,
        a_log: Tensor,
        skip: Tensor,
        steps: Tensor,
        keep: bool,
    ) -> Tensor:
        u = u.contiguous()
        rank = up.shape[1]
        joined = rank % 8 != 0
        select, up = select.to(u.dtype), up.to(u.dtype)
        weight = (
            torch.cat((torch.bmm(select[:, :, :rank], up), select[:, :, rank:]), 2)
            if joined
            else select
        )
        product_PBLO = _times(u, weight)
        raw_PBLE = (
            product_PBLO[..., : u.shape[3]] if joined else _times(product_PBLO[..., :rank], up)
        )
        delta_PBLE = _step_sizes(raw_PBLE, bias)
        a = -a_log.exp()
        a_PNE = base_two(a)
        b, c = _states(product_PBLO, a_log.shape[2])
        y_PBLE, borders = run_forward(u, delta_PBLE, a_PNE, b, c, skip.contiguous(), steps, keep)
        ctx.joined = joined
        ctx.save_for_backward(
            u, select, up, product_PBLO, delta_PBLE, a, a_PNE, skip, borders, steps
        )
        return y_PBLE

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        u, select, up, product, delta, a, a_PNE, skip, borders, steps = ctx.saved_tensors
        rank, channels, joined = up.shape[1], u.shape[3], ctx.joined
        dproduct = torch.empty_like(product)
        draw = dproduct[..., :channels] if joined else torch.empty_like(u)
        b, c, db, dc = (*_states(product, a.shape[2]), *_states(dproduct, a.shape[2]))
        du, da_PEN, dskip = run_backward(
            grads[0].to(u.dtype),
            u,
            delta,
            a_PNE,
            b,
            c,
            skip,
            steps,
            borders,
            draw,
            db,
            dc,
        )
        dbias = draw.sum((1, 2), dtype=torch.float32)
        if joined:
            weight = torch.cat((torch.bmm(select[:, :, :rank], up), select[:, :, rank:]), 2)
            dweight = sum_over_rows(u.flatten(1, 2), dproduct.flatten(1, 2))
            dlow = dweight[:, :, :channels]
            dselect = torch.cat((torch.bmm(dlow, up.mT), dweight[:, :, channels:]), 2)
            dup = torch.bmm(select[:, :, :rank].mT, dlow)
        else:
            weight = select
            dproduct[..., :rank] = _times(draw, up.mT)
            dselect = sum_over_rows(u.flatten(1, 2), dproduct.flatten(1, 2))
            dup = sum_over_rows(product[..., :rank].flatten(1, 2), draw.flatten(1, 2))
        du.flatten(1, 2).baddbmm_(dproduct.flatten(1, 2), weight.mT)
        # A = -exp(a_log), so da_log = A dA.
        return du, dselect.float(), dup.float(), dbias, da_PEN * a, dskip, None, None


def _times(x_PBLI: Tensor, weight_PIO: Tensor) -> Tensor:
    return torch.bmm(x_PBLI.flatten(1, 2), weight_PIO).view(*x_PBLI.shape[:3], -1)


def _states(product_PBLO: Tensor, states: int) -> tuple[Tensor, Tensor]:
    """Return the last columns of a product: B and C."""
    return product_PBLO[..., -2 * states : -states], product_PBLO[..., -states:]


def _step_sizes(raw_PBLE: Tensor, bias_PE: Tensor) -> Tensor:
    """Return softplus(raw + bias), float32."""
    population, batch, length, channels = raw_PBLE.shape
    delta_PBLE = torch.empty(raw_PBLE.shape, dtype=torch.float32, device=raw_PBLE.device)
    columns = min(STEP_ELEMENTS, triton.next_power_of_2(channels))
    rows = batch * length
    tile = {"ROWS": STEP_ELEMENTS // columns, "COLUMNS": columns}
    grid = (population * triton.cdiv(rows, tile["ROWS"]) * triton.cdiv(channels, columns),)
    if raw_PBLE.numel():
        _step_size_kernel[grid](
            raw_PBLE,
            bias_PE.contiguous(),
            delta_PBLE,
            rows,
            channels,
            raw_PBLE.stride(2),
            **tile,
            num_warps=4,
        )
    return delta_PBLE


@triton.jit
def _step_size_kernel(
    raw_ptr, bias_ptr, delta_ptr, rows, channels, raw_row, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    blocks = tl.cdiv(channels, COLUMNS)
    tiles = tl.cdiv(rows, ROWS)
    member = (tl.program_id(0) // blocks // tiles).to(tl.int64)
    row_R1 = ((tl.program_id(0) // blocks % tiles) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[
        :, None
    ]
    column_1C = ((tl.program_id(0) % blocks) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    mask_RC = (row_R1 < rows) & (column_1C < channels)
    bias_1C = tl.load(
        bias_ptr + member * channels + column_1C, mask=column_1C < channels, other=0.0
    )
    raw_RC = tl.load(
        raw_ptr + (member * rows + row_R1) * raw_row + column_1C, mask=mask_RC, other=0.0
    ).to(tl.float32)
    x_RC = raw_RC + bias_1C
    # log(1 + e^x) = max(x, 0) + log(1 + e^-|x|): nothing overflows, and a small step keeps its
    # digits.
    e_RC = tl.exp2(-tl.abs(x_RC) * LOG2E)
    series_RC = e_RC * (1 - e_RC * (1 / 2) * (1 - e_RC * (2 / 3) * (1 - e_RC * (3 / 4))))
    log_RC = tl.where(e_RC < 0.01, series_RC, tl.log(1 + e_RC))
    tl.store(
        delta_ptr + (member * rows + row_R1) * channels + column_1C,
        tl.maximum(x_RC, 0.0) + log_RC,
        mask=mask_RC,
    )
