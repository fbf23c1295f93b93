"""The delta rule on queries and keys of length one as kernels, against plain chunks in float64."""

import pytest
import torch
from torch import Tensor

import recollect.training.population  # noqa: F401  (tells MKL not to let sums depend on alignment)
from recollect.ops.delta_rule import CHUNK, triton_kernel, unit_delta_rule

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SINGLE = (
    1e-5 if DEVICE == "cuda" else 2e-6
)  # three tf32 products for a float32 one; the interpreter makes it a float32 one

both = pytest.mark.parametrize("decay", [False, True], ids=["plain", "decay"])


def cases() -> list[tuple[int, ...]]:
    """(P, B, H, L, D, E): one short chunk, a full one, several with a rest,
    more than one block of channels.
    """
    odd = [
        (1, 1, 1, 1, 1, 1),
        (3, 1, 2, 7, 3, 5),
        (1, 1, 1, 64, 17, 4),
        (1, 1, 2, 65, 7, 18),
        (1, 1, 1, 137, 70, 66),
    ]
    real = [
        (16, 512, 1, 64, 64, 64),
        (8, 256, 1, 64, 64, 128),
        (8, 64, 1, 48, 128, 128),
        (4, 64, 1, 256, 128, 256),
        (2, 32, 2, 512, 64, 128),
        (1, 16, 1, 256, 512, 1024),
    ]
    return odd + real if DEVICE == "cuda" else odd


def raw(shape: tuple[int, ...], decay: bool, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Channels, beta (0 at every fifth position but the first) and g;
    the channels are part of something wider.
    """
    population, batch, heads, length, keys, values = shape
    generator = torch.Generator().manual_seed(length)
    wide = torch.randn(
        population, batch, length, heads * (2 * keys + values) + 3, generator=generator
    )
    beta, g = torch.randn(2, population, batch, length, heads, generator=generator)
    beta = beta.sigmoid()
    beta[:, :, 5::5] = 0
    arguments = [wide.to(dtype)[..., 2:-1], beta.to(dtype), -g.exp() * 0.2]
    return [x.to(DEVICE) for x in arguments[: 3 if decay else 2]]


def outcome(rule, arguments: list[Tensor], keys: int, heads: int) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in arguments]
    o = rule(leaves[0], leaves[1], leaves[2] if len(leaves) == 3 else None, keys, heads, 1e-6)
    return [o.detach(), *torch.autograd.grad(o.square().sum(), leaves)]


def assert_as_in_double(arguments: list[Tensor], keys: int, heads: int, tolerance: float) -> None:
    found = outcome(triton_kernel.unit_delta_rule, arguments, keys, heads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_KERNELS", "off")
        wanted = outcome(unit_delta_rule, [x.double() for x in arguments], keys, heads)
    for name, mine, theirs, like in zip(
        ("o", "qkv", "beta", "g"), found, wanted, [arguments[0], *arguments], strict=False
    ):
        assert mine.dtype == like.dtype
        assert mine.shape == theirs.shape
        assert (
            mine.double() - theirs
        ).abs().max().item() <= tolerance * theirs.abs().max().item(), name


@both
@pytest.mark.parametrize("shape", cases(), ids=str)
def test_it_is_the_plain_rule(shape, decay):
    assert_as_in_double(raw(shape, decay), shape[4], shape[2], SINGLE)


@pytest.mark.skipif(
    DEVICE == "cpu",
    reason="the interpreter multiplies the bits of bf16 as if they were whole numbers",
)
@both
@pytest.mark.parametrize(
    "shape",
    [
        (16, 512, 1, 64, 64, 64),
        (8, 256, 1, 64, 64, 128),
        (4, 64, 1, 256, 128, 256),
        (1, 16, 1, 256, 512, 512),
    ],
    ids=str,
)
def test_bfloat16_rounds_operands_alone(shape, decay):
    assert_as_in_double(raw(shape, decay, torch.bfloat16), shape[4], shape[2], 3e-2)


@both
@pytest.mark.parametrize(("beta", "tolerance"), [(1.0, 1e-5), (2.0, 1e-4)])
def test_keys_that_repeat_stay_accurate(beta, tolerance, decay):
    length = 512 if DEVICE == "cuda" else 2 * CHUNK
    qkv, _, *g = raw((1, 1, 1, length, 32, 16), decay)
    qkv[:, :, torch.arange(length) % 4 != 0, 32:64] = qkv[:, :, :1, 32:64].clone()
    full = torch.full((1, 1, length, 1), beta, device=DEVICE)
    assert_as_in_double([qkv, full, *(x * 0.01 for x in g)], 32, 1, tolerance)


@pytest.mark.parametrize("rate", [20.0, 1e4], ids=["strong", "absurd"])
def test_any_decay_stays_finite_and_right(rate):
    qkv, beta, g = raw((1, 1, 1, 70, 5, 3), True)
    g[:, :, ::3] *= rate
    assert_as_in_double([qkv, beta, g], 5, 1, SINGLE)


def test_members_do_not_see_each_other():
    arguments = raw((2, 1, 1, CHUNK + 5, 3, 2), decay=True)

    def found(inputs: list[Tensor]) -> list[Tensor]:
        return outcome(triton_kernel.unit_delta_rule, inputs, keys=3, heads=1)

    everyone, alone = found(arguments), found([x[1:] for x in arguments])
    poisoned = [x.clone() for x in arguments]
    for x in poisoned:
        x[0] = torch.nan
    for one, other, single in zip(everyone, found(poisoned), alone, strict=True):
        assert torch.equal(one[1:], single)
        assert torch.equal(one[1], other[1])
        assert other[0].isnan().any()


def test_no_rows_give_no_output():
    qkv, beta = raw((2, 1, 1, 3, 2, 2), False)
    o = triton_kernel.unit_delta_rule(qkv[:, :0], beta[:, :0], None, 2, 1, 1e-6)
    assert o.shape == (2, 0, 3, 1, 2)
