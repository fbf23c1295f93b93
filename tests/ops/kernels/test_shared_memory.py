"""A kernel is used only on a GPU whose programs have enough shared memory for it; what kernels need
is compared with the compiler's numbers by bench/shared_memory.py.
"""

from collections.abc import Callable
from importlib import import_module

import pytest
import torch
from torch import Tensor

from recollect.ops import gated_scores, gru, lstm, softmax_attention
from recollect.ops.dispatch import HOPPER_SHARED, shared_memory
from recollect.ops.dropout import Mask

pytest.importorskip("triton", reason="Triton is not installed")
pytestmark = pytest.mark.usefixtures("exact_products")
CONSUMER_SHARED = 99 * 1024  # of a GeForce
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BF16, FP32 = torch.bfloat16, torch.float32


def kernel(name: str):
    return import_module(f"recollect.ops.{name}")


def short(length: int, width: int, dtype: torch.dtype) -> Callable[[int], bool]:
    fits = kernel("softmax_attention.tiles").fits_short
    return lambda shared: fits(length, length, width, False, dtype, shared)


def long(width: int, dtype: torch.dtype) -> Callable[[int], bool]:
    fits = kernel("softmax_attention.tiles").fits_long
    return lambda shared: fits(width, dtype, shared)


def gated(keys: int, values: int, dtype: torch.dtype) -> Callable[[int], bool]:
    fits = kernel("gated_scores.triton_kernel").fits
    return lambda shared: fits(keys, values, dtype, shared)


def recurrent(name: str, width: int, dtype: torch.dtype) -> Callable[[int], bool]:
    fits = kernel(f"{name}.triton_kernel").fits
    return lambda shared: fits(width, dtype, shared)


@pytest.mark.parametrize(
    ("fits", "on_hopper", "on_a_consumer_card"),
    [
        (short(64, 64, FP32), True, True),
        (short(128, 64, BF16), True, True),
        (short(128, 64, FP32), True, False),
        (short(100, 128, BF16), True, False),
        (short(100, 128, FP32), False, False),
        (long(64, FP32), True, True),
        (long(256, BF16), True, True),
        (long(128, FP32), True, False),
        (gated(64, 64, BF16), True, True),
        (gated(128, 128, BF16), True, True),
        (gated(128, 128, FP32), True, False),
        (gated(256, 256, FP32), False, False),
        (recurrent("lstm", 64, BF16), True, True),
        (recurrent("lstm", 128, BF16), True, False),
        (recurrent("lstm", 65, FP32), False, False),
        (recurrent("lstm", 256, BF16), False, False),
        (recurrent("gru", 64, FP32), True, True),
        (recurrent("gru", 128, BF16), True, False),
        (recurrent("gru", 65, FP32), False, False),
        (recurrent("gru", 256, BF16), False, False),
    ],
)
def test_what_fits(fits, on_hopper, on_a_consumer_card):
    assert fits(HOPPER_SHARED) is on_hopper
    assert fits(CONSUMER_SHARED) is on_a_consumer_card


def test_products_in_tf32_need_less_than_exact_ones():
    assert not gated(256, 256, FP32)(HOPPER_SHARED)
    torch.set_float32_matmul_precision("high")
    assert gated(256, 256, FP32)(HOPPER_SHARED)


def test_what_this_machine_has():
    x = torch.empty(0)
    assert shared_memory(x) == HOPPER_SHARED
    if torch.cuda.is_available():
        about = torch.cuda.get_device_properties(0)
        assert shared_memory(x.cuda()) == about.shared_memory_per_block_optin


def made(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE)


def attend(share: float | None) -> Callable[[], Tensor]:
    mask = None if share is None else Mask(torch.tensor([3, 4], device=DEVICE), share)
    return lambda: softmax_attention.projected_attention(
        made(2, 1, 9, 8), made(2, 8, 24), made(2, 24), 2, mask
    )


def attend_at(share: float | None) -> Callable[[], Tensor]:
    mask = None if share is None else Mask(torch.tensor([3, 4], device=DEVICE), share)
    where_BK = torch.tensor([[2, 5]], device=DEVICE)
    return lambda: softmax_attention.projected_attention_at(
        made(2, 1, 9, 8), made(2, 8, 24), made(2, 24), 2, where_BK, mask
    )


def gate() -> Tensor:
    q, v, row = made(2, 1, 1, 9, 4), made(2, 1, 1, 9, 6), made(2, 1, 1, 9)
    return gated_scores.gated_scores(q, q.flip(3), v, row, row)[0]


def walk(operation: Callable[..., Tensor], gates: int) -> Callable[[], Tensor]:
    width = 4
    into, bias = made(2, 6, gates * width), made(2, gates * width)
    recur = made(2, width, gates * width)
    return lambda: operation(made(2, 3, 5, 6), into, bias, recur, bias)


@pytest.mark.parametrize(
    ("module", "operation"),
    [
        (softmax_attention, attend(None)),
        (softmax_attention, attend(0.3)),
        (softmax_attention, attend_at(None)),
        (softmax_attention, attend_at(0.3)),
        (gated_scores, gate),
        (lstm, walk(lstm.lstm, 4)),
        (gru, walk(gru.gru, 3)),
    ],
)
def test_the_plain_form_serves_where_memory_is_short(
    module, operation, switch_kernels, monkeypatch
):
    switch_kernels(False)
    plain = operation()
    switch_kernels(True)
    by_kernel = operation()
    assert not torch.equal(by_kernel, plain)  # sums in another order
    torch.testing.assert_close(by_kernel, plain, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(module, "shared_memory", lambda like: 1024)
    assert torch.equal(operation(), plain)
