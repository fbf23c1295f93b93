"""The kernels of both norms, alone and with the residual addition,
against the plain operations in float64.
"""

import pytest
import torch
from torch import Tensor

from recollect.model.layers import initialise
from recollect.model.model import Model
from recollect.ops import norm as plain
from recollect.ops.norm import triton_kernel
from recollect.spec.model import ModelSpec

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EPS = 1e-5
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}  # of the largest value
KINDS = [("layer", True), ("rms", False)]  # with a bias, without


def cases() -> list[tuple[int, ...]]:
    """(P, ..., D): odd widths and rows, more than one block of rows, no axis in between; on a GPU
    also those of real models.
    """
    odd = [
        (1, 1, 1),
        (3, 5, 7),
        (3, 33, 17),
        (1, 5, 2, 64),
        (3, 33, 65),
        (2, 3),
        (1, 150, 3),
        (2, 2, 3, 2, 5),
    ]
    real = [
        (16, 512, 64, 64),
        (16, 512, 4, 64),
        (4, 256, 256, 128),
        (2, 256, 256, 512),
        (2, 256, 64, 4, 16),
        (2, 99, 8192),
    ]
    return odd + real if DEVICE == "cuda" else odd


def made(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def parameters(shape: tuple[int, ...], shifted: bool) -> list[Tensor]:
    return [made(shape[0], shape[-1], seed=1) + 1] + (
        [made(shape[0], shape[-1], seed=2)] if shifted else []
    )


def outcome(
    operations, kind: str, inputs: list[Tensor], affine: list[Tensor], factors: list[Tensor | None]
) -> list[Tensor]:
    """Outputs, then the gradients of inputs and parameters;
    an output whose factor is None is not used.
    """
    inputs, affine = (
        [tensor.detach().requires_grad_() for tensor in tensors] for tensors in (inputs, affine)
    )
    arguments = (affine[0], affine[1] if len(affine) == 2 else None, EPS, kind)
    x, *branch = inputs
    if branch:
        outputs = operations.add_norm(
            x, branch[0], branch[1] if len(branch) == 2 else None, *arguments
        )
    else:
        outputs = (operations.norm(x, *arguments),)
    used = [(y, factor) for y, factor in zip(outputs, factors, strict=True) if factor is not None]
    gradients = torch.autograd.grad(
        [y for y, _ in used], [*inputs, *affine], [factor for _, factor in used]
    )
    return [*(y.detach() for y in outputs), *gradients]


def assert_as_in_double(
    kind: str, inputs: list[Tensor], affine: list[Tensor], factors: list[Tensor | None]
) -> None:
    doubled = [
        [None if tensor is None else tensor.double() for tensor in tensors]
        for tensors in (inputs, affine, factors)
    ]
    expected = outcome_plain(kind, *doubled)
    found = outcome(triton_kernel, kind, inputs, affine, factors)
    dtypes = [inputs[0].dtype] * len(factors) + [tensor.dtype for tensor in (*inputs, *affine)]
    assert [tensor.dtype for tensor in found] == dtypes
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.shape == theirs.shape
        # Of one channel alone nothing is left but rounding, which its norm amplifies.
        least = EPS**-0.5 if inputs[0].shape[-1] == 1 else 1.0
        bound = TOLERANCE[mine.dtype] * theirs.abs().max().clamp(min=least).item()
        assert (mine.double() - theirs).abs().max().item() <= bound


def outcome_plain(kind: str, *tensors: list[Tensor]) -> list[Tensor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_KERNELS", "off")
        return outcome(plain, kind, *tensors)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("kind", "shifted"), KINDS)
@pytest.mark.parametrize("shape", cases(), ids=str)
def test_norm_is_the_plain_one(shape, kind, shifted, dtype):
    x, factor = made(*shape, dtype=dtype), made(*shape, seed=3, dtype=dtype)
    assert_as_in_double(kind, [x], parameters(shape, shifted), [factor])


@pytest.mark.parametrize(("kind", "shifted"), KINDS)
def test_what_is_kept_beside_its_norm_has_both_gradients(kind, shifted):
    x, *factors = (made(3, 5, 7, seed=seed) for seed in range(3))
    found, wanted = [], []
    for operation, dtype, outcomes in (
        (triton_kernel.keep_norm, torch.float32, found),
        (plain.keep_norm, torch.float64, wanted),
    ):
        inputs = [
            tensor.to(dtype).requires_grad_() for tensor in (x, *parameters((3, 5, 7), shifted))
        ]
        both = operation(inputs[0], inputs[1], inputs[2] if shifted else None, EPS, kind)
        outcomes += [
            *both,
            *torch.autograd.grad(both, inputs, [factor.to(dtype) for factor in factors]),
        ]
    assert torch.equal(found[0], x)
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(
            mine.double(), theirs, rtol=0, atol=2e-6 * theirs.abs().max().clamp(min=1).item()
        )


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("kind", "shifted"), KINDS)
@pytest.mark.parametrize("shape", cases(), ids=str)
def test_add_norm_is_the_plain_one(shape, kind, shifted, dtype):
    # In eighths, so that bfloat16 holds the sum without rounding it: a row of almost equal numbers
    # would blow that up.
    tensors = [(made(*shape, seed=seed) * 8).round().div(8).to(dtype) for seed in range(4)]
    assert_as_in_double(kind, tensors[:2], parameters(shape, shifted), tensors[2:])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", cases(), ids=str)
def test_a_branch_may_come_with_a_shift(shape, dtype):
    """The bias of the product that the branch is:
    one number per member and channel, its gradient a sum over rows.
    """
    tensors = [(made(*shape, seed=seed) * 8).round().div(8).to(dtype) for seed in range(4)]
    shift = (made(shape[0], shape[-1], seed=5) * 8).round().div(8)
    # Not centred: three eighths of one row may be almost equal, and its norm as ill-conditioned as
    # it likes.
    assert_as_in_double("rms", [*tensors[:2], shift], parameters(shape, True), tensors[2:])


def test_a_shift_counts_even_if_the_norm_goes_unused():
    x, branch, factor = (made(2, 5, 7, seed=seed).requires_grad_() for seed in range(3))
    shift, weight = made(2, 7, seed=4).requires_grad_(), made(2, 7)
    total, _ = triton_kernel.add_norm(x, branch, shift, weight, None, EPS, "rms")
    torch.testing.assert_close(torch.autograd.grad(total, shift, factor)[0], factor.sum(1))


@pytest.mark.parametrize(("kind", "shifted"), [("layer", False), ("rms", True)])
def test_a_bias_goes_with_either_kind(kind, shifted):
    shape = (2, 5, 7)
    tensors = [made(*shape, seed=seed) for seed in range(4)]
    assert_as_in_double(kind, tensors[:2], parameters(shape, shifted), tensors[2:])


def test_the_sum_may_go_unused():
    shape = (2, 5, 7)
    tensors = [made(*shape, seed=seed) for seed in range(3)]
    assert_as_in_double("layer", tensors[:2], parameters(shape, True), [None, tensors[2]])


def test_the_norm_may_go_unused():
    x, branch, factor = (made(2, 5, 7, seed=seed).requires_grad_() for seed in range(3))
    weight = made(2, 7).requires_grad_()
    total, _ = triton_kernel.add_norm(x, branch, None, weight, None, EPS, "rms")
    gradients = torch.autograd.grad(total, (x, branch, weight), factor, allow_unused=True)
    assert torch.equal(gradients[0], factor)
    assert torch.equal(gradients[1], factor)
    assert gradients[2] is None


def test_a_wide_sum_of_a_narrow_branch():
    """float32 + bfloat16 is float32, as in torch; a gradient has the dtype of its input."""
    x, branch = (
        made(2, 5, 7).requires_grad_(),
        made(2, 5, 7, seed=1, dtype=torch.bfloat16).requires_grad_(),
    )
    weight = made(2, 7)
    total, y = triton_kernel.add_norm(x, branch, None, weight, None, EPS, "rms")
    assert torch.equal(total, x + branch)
    assert y.dtype == torch.float32
    (y * made(2, 5, 7, seed=2)).sum().backward()
    assert x.grad.dtype == torch.float32
    assert branch.grad.dtype == torch.bfloat16
    # the interpreter rounds towards zero
    torch.testing.assert_close(branch.grad.float(), x.grad, rtol=2**-7, atol=0)


def test_a_branch_of_another_shape_is_widened_or_refused():
    x, branch, weight = made(2, 3, 5), made(2, 1, 5, seed=1).requires_grad_(), made(2, 5, seed=2)
    total, y = triton_kernel.add_norm(x, branch, None, weight, None, EPS, "rms")
    assert torch.equal(total, x + branch)
    (total + y).sum().backward()
    assert branch.grad.shape == branch.shape
    with pytest.raises(RuntimeError, match="expanded size"):
        triton_kernel.add_norm(x, made(2, 3, 4), None, weight, None, EPS, "rms")


STRIDED = {
    "a slice of the width": lambda: made(3, 5, 2, 30)[..., 3:20],
    "heads before positions": lambda: made(3, 5, 4, 17).transpose(1, 2),
    "width not last in memory": lambda: made(3, 17, 5, 2).permute(0, 2, 3, 1),
    "every second row": lambda: made(3, 9, 2, 17)[:, ::2],
    "one row for all": lambda: made(3, 1, 1, 17).expand(3, 5, 2, 17),
}


@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED)
def test_strides_do_not_matter(make):
    x = make()
    shape = tuple(x.shape)
    assert_as_in_double("layer", [x], parameters(shape, True), [make()])
    others = [made(*shape, seed=seed) for seed in (5, 6, 7)]
    assert_as_in_double("rms", [x, others[0]], parameters(shape, False), others[1:])
    assert_as_in_double("rms", [others[0], x], parameters(shape, False), [x, others[1]])


def test_a_constant_row_has_no_variance_to_divide_by():
    x = torch.full((1, 3, 9), 0.3, device=DEVICE)
    y = triton_kernel.norm(x, torch.ones(1, 9, device=DEVICE), None, EPS, "layer")
    assert y.abs().max() < 1e-4


@pytest.mark.parametrize("rows", [3, 70])
def test_a_member_alone_is_a_member_in_company(rows):
    shape = (3, rows, 9)
    inputs, factors = (
        [made(*shape, seed=seed) for seed in (0, 1)],
        [made(*shape, seed=seed) for seed in (2, 3)],
    )
    affine = parameters(shape, True)
    together = outcome(triton_kernel, "layer", inputs, affine, factors)
    for p in range(3):
        own = [[tensor[p : p + 1] for tensor in tensors] for tensors in (inputs, affine, factors)]
        alone = outcome(triton_kernel, "layer", *own)
        assert all(
            torch.equal(mine[0], theirs[p]) for mine, theirs in zip(alone, together, strict=True)
        )


@pytest.mark.filterwarnings("ignore:invalid value")  # numpy's, inside the interpreter
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_broken_member_breaks_no_other(kind):
    shape = (3, 40, 9)
    inputs, factors = (
        [made(*shape, seed=seed) for seed in (0, 1)],
        [made(*shape, seed=seed) for seed in (2, 3)],
    )
    affine = parameters(shape, True)
    before = outcome(triton_kernel, kind, inputs, affine, factors)
    inputs[1][1] = float("nan")
    affine[0][1] = float("inf")
    after = outcome(triton_kernel, kind, inputs, affine, factors)
    for sound, broken in zip(before, after, strict=True):
        assert torch.equal(sound[[0, 2]], broken[[0, 2]])
    assert after[1][1].isnan().all()


@pytest.mark.parametrize("block", ["mixer", "mixer+identity", "mixer+mlp", "mixer+channel-mix"])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_model_with_kernels_is_the_model_without(kind, block, monkeypatch):
    spec = ModelSpec.parse(
        {"mixer": "attention", "width": 6, "norm": kind, "block": block, "positions": "learned"}
    )
    model = Model(spec, 2, 11, 5)
    initialise(model, [1, 2])
    model.to(DEVICE)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += made(*parameter.shape, seed=3) / 4
    tokens_BL, where_BK = (
        torch.arange(10, device=DEVICE).view(2, 5),
        torch.tensor([[0, 4], [3, 3]], device=DEVICE),
    )
    results = []
    for kernel in (False, True):
        monkeypatch.setattr(plain, "use_triton", lambda *tensors, kernel=kernel: kernel)
        logits = model(tokens_BL, where_BK)
        results.append(
            [logits, *torch.autograd.grad(logits.square().sum(), list(model.parameters()))]
        )
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_no_rows():
    x = torch.empty(2, 0, 5, device=DEVICE).requires_grad_()
    weight = torch.ones(2, 5, device=DEVICE).requires_grad_()
    y = triton_kernel.norm(x, weight, None, EPS, "rms")
    y.sum().backward()
    assert y.shape == x.grad.shape == x.shape
    assert not weight.grad.any()
