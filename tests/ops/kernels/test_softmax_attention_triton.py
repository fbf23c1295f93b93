"""The attention kernels against PyTorch's own in float64, and with dropout against the plain form:
that for short sequences, and that which walks through tiles.
"""

from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.dispatch import shared_memory
from recollect.ops.dropout import Mask
from recollect.ops.softmax_attention import plain as plain_form

attention = pytest.importorskip(
    "recollect.ops.softmax_attention.triton_kernel", reason="Triton is not installed"
)
long_attention = pytest.importorskip(
    "recollect.ops.softmax_attention.triton_long", reason="Triton is not installed"
)
tiles = pytest.importorskip("recollect.ops.softmax_attention.tiles")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.usefixtures("exact_products")
SHAPES = [(1, 1, 1, 1, 1), (2, 3, 2, 17, 8), (1, 2, 1, 64, 64), (3, 1, 1, 33, 65), (2, 1, 3, 2, 16)]
SHAPES += (
    [(4, 64, 1, 64, 64), (2, 32, 4, 128, 32), (2, 16, 1, 100, 128)] if DEVICE == "cuda" else []
)


def skip_if_too_large(kernel: ModuleType, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Skip what an operation would not give to the kernel on this GPU."""
    length, width = shape[3:]
    shared = shared_memory(torch.empty(0, device=DEVICE))
    bytes_needed = (
        tiles.short_bytes(length, length, width, dtype)
        if kernel is attention
        else tiles.long_bytes(width, dtype)
    )
    if bytes_needed > shared:
        pytest.skip(f"needs {bytes_needed} bytes of shared memory, of {shared}")


def parts(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """q, k, v as views of one projection, as the mixer has them, and a gradient."""
    population, batch, heads, length, width = shape
    generator = torch.Generator().manual_seed(1)
    joint = torch.randn(population, batch, length, 3, heads, width, generator=generator).to(
        DEVICE, dtype
    )
    q, k, v = joint.permute(3, 0, 1, 4, 2, 5)
    return q, k, v, torch.randn(shape, generator=generator).to(DEVICE, dtype)


def results(function, q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> list[Tensor]:
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    y = function(q, k, v)
    return [y, *torch.autograd.grad(y, (q, k, v), g)]


def reference(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(
        q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), is_causal=True
    ).view_as(q)


# The interpreter multiplies the bits of bf16 as if they were whole numbers.
DTYPES = [(torch.float32, 2e-6), *([(torch.bfloat16, 2e-2)] if DEVICE == "cuda" else [])]


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_outputs_and_gradients_are_those_of_the_plain_form(shape, dtype, tolerance):
    skip_if_too_large(attention, shape, dtype)
    tensors = parts(shape, dtype)
    found = results(attention.causal_attention, *tensors)
    wanted = results(reference, *(x.double() for x in tensors))
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == dtype
        one, other = one.detach(), other.detach()
        largest = max(float(other.abs().max()), 1e-3)  # one key alone has no gradient
        assert float((one.double() - other).abs().max()) < tolerance * largest


# More than one tile of keys and of queries, sizes that fill none, and wide heads.
LONG = [(2, 1, 2, 70, 20), (1, 2, 1, 130, 16), (1, 1, 1, 33, 200), (1, 1, 2, 1, 4)]
LONG += [(3, 16, 1, 256, 64), (2, 8, 2, 512, 64), (2, 4, 1, 300, 256)] if DEVICE == "cuda" else []
MASKED = [(attention, shape) for shape in SHAPES if shape[3] <= 64]
MASKED += [(long_attention, shape) for shape in (*LONG, SHAPES[1])]


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES, ids=str)
@pytest.mark.parametrize("asked", [None, 5], ids=["everywhere", "at five positions"])
@pytest.mark.parametrize("share", [None, 0.1, 0.6])
@pytest.mark.parametrize(
    ("kernel", "shape"), MASKED, ids=lambda value: getattr(value, "__name__", str(value))[-13:]
)
def test_dropped_weights_are_those_of_the_plain_form(kernel, shape, share, asked, dtype, tolerance):
    q, k, v, g = parts(shape, dtype)
    population, batch, heads, length, width = shape
    generator = torch.Generator().manual_seed(6)
    mask = None
    if share is not None:
        streams_P = torch.randint(-(2**62), 2**62, (population,), generator=generator)
        mask = Mask(streams_P.to(DEVICE), share)
    where_BK = None
    if asked is not None:
        where_BK = torch.randint(length, (batch, asked), generator=generator).to(DEVICE)
        index = where_BK[None, :, None, :, None].expand(population, -1, heads, -1, width)
        q, g = q.gather(3, index), g.gather(3, index)

    def wanted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if where_BK is None:
            return plain_form.attention(q, k, v, None, mask)
        return plain_form.attention_at(q, k, v, where_BK, None, mask)

    found = results(lambda q, k, v: kernel.causal_attention(q, k, v, where_BK, mask), q, k, v, g)
    exact = results(wanted, *(x.double() for x in (q, k, v, g)))
    # The gradient of a score is a difference: of one key alone it is rounding, of the terms' size.
    largest = max(float(other.detach().abs().max()) for other in exact)
    for one, other in zip(found, exact, strict=True):
        assert one.dtype == dtype
        one, other = one.detach(), other.detach()
        assert float((one.double() - other).abs().max()) <= tolerance * largest


@pytest.mark.filterwarnings("ignore:All-NaN slice:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_broken_member_is_not_noticed_by_tiles():
    q, k, v, g = parts((3, 1, 1, 70, 8), torch.float32)
    mask = Mask(torch.tensor([1, 2, 3], device=DEVICE), 0.1)

    def masked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return long_attention.causal_attention(q, k, v, None, mask)

    sound = results(masked, q, k, v, g)
    k = k.clone()
    k[1] = float("nan")
    for one, other in zip(results(masked, q, k, v, g), sound, strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])


# the interpreter computes with NumPy
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_broken_member_is_not_noticed():
    q, k, v, g = parts((3, 2, 1, 17, 8), torch.float32)
    sound = results(attention.causal_attention, q, k, v, g)
    q, k, v = (x.clone() for x in (q, k, v))
    q[1] = float("nan")
    for one, other in zip(results(attention.causal_attention, q, k, v, g), sound, strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])


def test_the_past_does_not_see_the_future():
    q, k, v, _ = parts((1, 2, 1, 33, 8), torch.float32)
    y = attention.causal_attention(q, k, v)
    k, v = k.clone(), v.clone()
    k[..., 20:, :], v[..., 20:, :] = 7.0, -3.0
    assert torch.equal(attention.causal_attention(q, k, v)[..., :20, :], y[..., :20, :])


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_queries_at_a_few_positions(shape, dtype, tolerance):
    """As those rows of the whole; in any order, and twice at the same place."""
    q, k, v, g = parts(shape, dtype)
    batch, length = shape[1], shape[3]
    where_BK = torch.randint(
        length, (batch, min(5, length)), generator=torch.Generator().manual_seed(3)
    ).to(DEVICE)
    index = where_BK[None, :, None, :, None].expand(shape[0], -1, shape[2], -1, shape[4])
    tensors = (q.gather(3, index), k, v, g.gather(3, index))

    def by_rows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        bias = (where_BK[..., None] >= torch.arange(length, device=DEVICE))[None, :, None].log()
        return (q @ k.mT / shape[4] ** 0.5 + bias).softmax(-1) @ v

    found = results(lambda q, k, v: attention.causal_attention(q, k, v, where_BK), *tensors)
    for one, other in zip(found, results(by_rows, *(x.double() for x in tensors)), strict=True):
        one, other = one.detach(), other.detach()
        largest = max(float(other.abs().max()), 1e-3)
        assert float((one.double() - other).abs().max()) < tolerance * largest


JOINT = [(attention, shape, None) for shape in SHAPES]
JOINT += [(attention, shape, 0.1) for shape in SHAPES if shape[3] <= 64]
JOINT += [(long_attention, shape, 0.1) for shape in (*LONG, (2, 2, 4, 67, 12), SHAPES[1])]
JOINT += [(long_attention, LONG[0], None)]


def joint_tensors(
    shape: tuple[int, ...], asked: int | None
) -> tuple[list[Tensor], Tensor, Tensor | None]:
    """A product, its bias and queries apart, the gradient of an output, and positions."""
    population, batch, heads, length, width = shape
    channels = (3 if asked is None else 2) * heads * width
    generator = torch.Generator().manual_seed(4)

    def made(*size: int) -> Tensor:
        return torch.randn(size, generator=generator).to(DEVICE)

    product, bias = made(population, batch, length, channels), made(population, channels)
    where_BK = (
        None
        if asked is None
        else torch.randint(length, (batch, asked), generator=generator).to(DEVICE)
    )
    q = made(population, batch, heads, asked or 1, width)
    return [product, bias, q], made(population, batch, heads, asked or length, width), where_BK


def mask_of(population: int, share: float | None) -> Mask | None:
    streams_P = torch.arange(population, device=DEVICE) * 977 + 5
    return None if share is None else Mask(streams_P, share)


def joint_results(
    kernel, tensors: list[Tensor], g: Tensor, where_BK: Tensor | None, mask: Mask | None
) -> list[Tensor]:
    """Output and gradients; of the queries too if they are apart."""
    product, bias, q = (x.detach().requires_grad_() for x in tensors)
    heads = q.shape[2]
    if where_BK is None:
        y = kernel.joint_attention(product, bias, heads, mask)
        return [y.detach(), *torch.autograd.grad(y, (product, bias), g)]
    y = kernel.joint_attention_at(q, product, bias, heads, where_BK, mask)
    return [y.detach(), *torch.autograd.grad(y, (product, bias, q), g)]


class ByParts:
    """The plain form of a kernel's functions."""

    @staticmethod
    def joint_attention(
        product: Tensor, bias: Tensor, heads: int, mask: Mask | None = None
    ) -> Tensor:
        q, k, v = parts_with_bias(product, bias, 3, heads)
        return plain_form.attention(q, k, v, None, mask)

    @staticmethod
    def joint_attention_at(
        q: Tensor,
        product: Tensor,
        bias: Tensor,
        heads: int,
        where_BK: Tensor,
        mask: Mask | None = None,
    ) -> Tensor:
        k, v = parts_with_bias(product, bias, 2, heads)
        return plain_form.attention_at(q, k, v, where_BK, None, mask)


def parts_with_bias(product: Tensor, bias: Tensor, parts_of: int, heads: int) -> Tensor:
    shifted = product + bias[:, None, None].to(product.dtype)
    return shifted.unflatten(-1, (parts_of, heads, -1)).permute(3, 0, 1, 4, 2, 5)


def least_scale(wanted: list[Tensor]) -> float:
    """The gradient of a score is a difference: where it is small, its error is of the terms' size.

    The gradient of a bias is a sum over rows, larger than its terms.
    """
    y, product_gradient, _, *rest = wanted
    return max(float(x.abs().max()) for x in (y, product_gradient, *rest))


@pytest.mark.parametrize("asked", [None, 3], ids=["everywhere", "at three positions"])
@pytest.mark.parametrize(
    ("kernel", "shape", "share"), JOINT, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_parts_of_one_product_come_with_its_bias(kernel, shape, share, asked):
    """The gradient of the product is one tensor, that of the bias its sum over rows."""
    skip_if_too_large(kernel, shape, torch.float32)
    tensors, g, where_BK = joint_tensors(shape, asked)
    mask = mask_of(shape[0], share)
    found = joint_results(kernel, tensors, g, where_BK, mask)
    wanted = joint_results(ByParts, [x.double() for x in tensors], g.double(), where_BK, mask)
    assert found[1].is_contiguous()
    least = least_scale(wanted) if kernel is long_attention else 1e-3
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        assert float((one.double() - other).abs().max()) < 5e-6 * max(
            float(other.abs().max()), least
        )


# Three bits more than bf16, which the interpreter does not know.
HALF, HALF_TOLERANCE = (torch.bfloat16, 2e-2) if DEVICE == "cuda" else (torch.float16, 2.5e-3)


@pytest.mark.parametrize("asked", [None, 3], ids=["everywhere", "at three positions"])
@pytest.mark.parametrize(
    ("kernel", "shape", "share"), JOINT, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_a_product_in_half_precision_comes_with_a_bias_in_float32(kernel, shape, share, asked):
    """As under autocast."""
    (product, bias, q), g, where_BK = joint_tensors(shape, asked)
    mask = mask_of(shape[0], share)
    product, q, g = (x.to(HALF) for x in (product, q, g))
    found = joint_results(kernel, [product, bias, q], g, where_BK, mask)
    assert [x.dtype for x in found[:3]] == [HALF, HALF, torch.float32]
    exact = [x.double() for x in (product, bias, q)]
    wanted = joint_results(ByParts, exact, g.double(), where_BK, mask)
    for one, other in zip(found, wanted, strict=True):
        largest = max(float(other.abs().max()), least_scale(wanted))
        assert float((one.double() - other).abs().max()) < HALF_TOLERANCE * largest


@pytest.mark.parametrize("asked", [None, 3], ids=["everywhere", "at three positions"])
def test_bits_of_a_member_do_not_depend_on_the_others(asked):
    """Not even those of the sum over rows that is the gradient of a bias."""
    tensors, g, where_BK = joint_tensors((3, 2, 2, 70, 8), asked)
    mask = mask_of(3, 0.1)
    assert mask is not None
    together = joint_results(long_attention, tensors, g, where_BK, mask)
    alone = joint_results(
        long_attention, [x[1:2] for x in tensors], g[1:2], where_BK, Mask(mask.stream_P[1:2], 0.1)
    )
    for one, other in zip(together, alone, strict=True):
        assert torch.equal(one[1:2], other)
