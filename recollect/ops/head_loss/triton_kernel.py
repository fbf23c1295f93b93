"""The tied head and its loss with one buffer of scores, which becomes their gradient.

    scores = x @ table^T        loss = log sum_v exp(scores_v) - scores_label

A program reads one row of scores, and in training writes d = softmax(scores) - onehot(label) over
it (zeros where there is no label). The gradient g of the loss is not known at that point; the
backward applies it on the narrow side of each product:

    dx = g * (d @ table)        dtable = d^T @ (g * x)

Shapes: P population, M labelled positions, D width, V vocabulary. The products are the library's,
in the dtype of x.
"""

# mypy: disable-error-code="no-untyped-def, arg-type, call-arg"
# Triton types the arguments of a kernel itself, at the first call.

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# A row of up to this many scores is read once and stays in registers; the rest of a longer row is
# read twice, the second time from a cache. With 32 numbers per thread, four rows of 8,192 fit on a
# multiprocessor, and 128 KB are in flight to it.
LONGEST_BLOCK = 16384
SCORES_PER_WARP = 1024


def head_loss(x_PMD: Tensor, table_PVD: Tensor, labels_M: Tensor, ignore: int) -> Tensor:
    """See head_loss.head_loss; if `table_PVD` is more precise than `x_PMD`, so is its gradient."""
    return _HeadLoss.apply(x_PMD, table_PVD, labels_M, ignore)


def head_verdict(
    x_PMD: Tensor, table_PVD: Tensor, labels_M: Tensor, ignore: int
) -> tuple[Tensor, Tensor]:
    """See head_loss.head_verdict."""
    scores_PMV = _scores(x_PMD, table_PVD)
    right_PM = torch.empty(scores_PMV.shape[:2], dtype=torch.uint8, device=x_PMD.device)
    loss_PM = _over_rows(scores_PMV, labels_M, ignore, right_PM)
    return loss_PM, right_PM.view(torch.bool)


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, labels: Tensor, ignore: int) -> Tensor:
        scores_PMV = _scores(x, table)
        loss_PM = _over_rows(scores_PMV, labels, ignore, None)
        ctx.save_for_backward(x, table, scores_PMV)
        return loss_PM

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, table, d_PMV = ctx.saved_tensors
        g_PM1 = grads[0][:, :, None]
        dx_PMD = (torch.bmm(d_PMV, table.to(x.dtype)) * g_PM1).to(x.dtype)
        scaled_PMD = (x * g_PM1).to(x.dtype)
        return dx_PMD, _product(d_PMV.transpose(1, 2), scaled_PMD, table.dtype), None, None


def _scores(x_PMD: Tensor, table_PVD: Tensor) -> Tensor:
    return torch.bmm(x_PMD, table_PVD.to(x_PMD.dtype).transpose(1, 2))


def _product(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a batched product in the precision in which the library summed up, if possible."""
    if a.dtype == dtype:
        return torch.bmm(a, b)
    return torch.bmm(a, b, out_dtype=dtype) if a.is_cuda else torch.bmm(a, b).to(dtype)


def _over_rows(
    scores_PMV: Tensor, labels_M: Tensor, ignore: int, right_PM: Tensor | None
) -> Tensor:
    """Return the loss of each row; fill `right_PM`, or else overwrite the scores by their
    gradient.
    """
    population, labels, vocabulary = scores_PMV.shape
    loss_PM = torch.empty(population, labels, dtype=torch.float32, device=scores_PMV.device)
    block = min(triton.next_power_of_2(vocabulary), LONGEST_BLOCK)
    _rows[(population * labels,)](
        scores_PMV,
        labels_M.contiguous(),
        loss_PM,
        right_PM,
        labels_M.numel(),  # of all members or of each: the row's index modulo this
        vocabulary,
        ignore,
        TRAIN=right_PM is None,
        LONG=vocabulary > block,
        BLOCK=block,
        num_warps=max(1, block // SCORES_PER_WARP),
    )
    return loss_PM


@triton.jit
def _rows(
    scores,
    labels,
    losses,
    rights,
    M,
    V,
    ignore,
    TRAIN: tl.constexpr,
    LONG: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + row % M)
    labelled = label != ignore
    scores += row * V
    at_label = tl.load(scores + label, mask=labelled, other=0.0).to(tl.float32)

    columns = tl.arange(0, BLOCK)
    x = tl.load(scores + columns, mask=columns < V, other=float("-inf")).to(tl.float32)
    top = _top(x)
    total = tl.sum(tl.exp(x - _shift(top)), 0)
    best = _first_at(x, top, columns)
    if LONG:
        for start in range(BLOCK, V, BLOCK):
            y = tl.load(scores + start + columns, mask=start + columns < V, other=float("-inf")).to(
                tl.float32
            )
            top_here = _top(y)
            if not TRAIN:
                best = tl.where(top_here > top, start + _first_at(y, top_here, columns), best)
            top_so_far = tl.maximum(top, top_here)
            total = total * tl.exp(top - _shift(top_so_far)) + tl.sum(
                tl.exp(y - _shift(top_so_far)), 0
            )
            top = top_so_far
    shift = _shift(top)
    tl.store(losses + row, tl.where(labelled, tl.log(total) - (at_label - shift), 0.0))
    if TRAIN:
        share = 1.0 / total
        d = tl.where(
            labelled, tl.exp(x - shift) * share - tl.where(columns == label, 1.0, 0.0), 0.0
        )
        tl.store(scores + columns, d.to(scores.dtype.element_ty), mask=columns < V)
        if LONG:
            for start in range(BLOCK, V, BLOCK):
                y = tl.load(
                    scores + start + columns, mask=start + columns < V, other=float("-inf")
                ).to(tl.float32)
                d = tl.where(
                    labelled,
                    tl.exp(y - shift) * share - tl.where(start + columns == label, 1.0, 0.0),
                    0.0,
                )
                tl.store(
                    scores + start + columns,
                    d.to(scores.dtype.element_ty),
                    mask=start + columns < V,
                )
    else:
        tl.store(rights + row, (best == label).to(tl.uint8))


@triton.jit
def _top(x):
    """Return the highest score; NaN counts as the highest, as in argmax."""
    return tl.max(tl.where(x != x, float("inf"), x), 0)


@triton.jit
def _first_at(x, top, columns):
    return tl.min(tl.where(tl.where(x != x, float("inf"), x) == top, columns, 2147483647), 0)


@triton.jit
def _shift(top):
    """Return what is subtracted from scores before the exponential: a block that is all -inf must
    add zeros, not NaN.
    """
    return tl.where(top == float("-inf"), 0.0, top)
