"""The head's kernel against the plain form in float64."""

import pytest
import torch
from torch import Tensor

from recollect.ops.head_loss import head_loss as plain
from recollect.ops.head_loss import head_verdict as plain_verdict

kernel = pytest.importorskip(
    "recollect.ops.head_loss.triton_kernel", reason="Triton is not installed"
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
IGNORE = -100
DTYPES = [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)]

pytestmark = [
    pytest.mark.usefixtures("exact_products"),
    # the interpreter computes with NumPy, which warns of NaN
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def cases() -> list[tuple[int, int, int, int]]:
    """P, M, D, V."""
    small = [
        (1, 1, 1, 1),
        (3, 5, 7, 17),
        (2, 33, 17, 65),
        (3, 5, 64, 64),
        (1, 5, 65, 7),
        (2, 3, 8, 1000),
    ]
    return small + (
        [(16, 2048, 64, 8192), (2, 2048, 512, 8192), (2, 512, 128, 50257)]
        if DEVICE == "cuda"
        else []
    )


@pytest.fixture(autouse=True)
def _plain_is_plain(monkeypatch):
    monkeypatch.setenv("RECOLLECT_KERNELS", "off")  # on a GPU too


@pytest.fixture
def short_blocks(monkeypatch):
    """Rows of a few dozen scores take several blocks."""
    monkeypatch.setattr(kernel, "LONGEST_BLOCK", 16)


def parts(
    shape: tuple[int, int, int, int], dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, table, labels of which every third is missing, and a gradient of the loss."""
    population, labels, width, vocabulary = shape
    generator = torch.Generator().manual_seed(1)
    x_PMD = (torch.randn(population, labels, width, generator=generator) * 3 / width**0.5).to(
        DEVICE, dtype
    )
    table_PVD = torch.randn(population, vocabulary, width, generator=generator).to(DEVICE, dtype)
    labels_M = torch.randint(vocabulary, (labels,), generator=generator)
    labels_M[2::3] = IGNORE
    return (
        x_PMD,
        table_PVD,
        labels_M.to(DEVICE),
        torch.randn(population, labels, generator=generator).to(DEVICE),
    )


def trained(function, x: Tensor, table: Tensor, labels: Tensor, g: Tensor) -> list[Tensor]:
    x, table = x.detach().requires_grad_(), table.detach().requires_grad_()
    loss = function(x, table, labels, IGNORE)
    return [loss.detach(), *torch.autograd.grad(loss, (x, table), g.to(loss.dtype))]


def error(found: Tensor, wanted: Tensor) -> float:
    return float((found.double() - wanted).abs().max()) / max(float(wanted.abs().max()), 1.0)


def assert_near(found: Tensor, wanted: Tensor, tolerance: float) -> None:
    assert error(found, wanted) <= tolerance


def test_labels_of_each_member_are_its_own():
    x, table, labels, g = parts((3, 7, 5, 17))
    own_PM = torch.stack([labels, labels.flip(0), labels.roll(1)])
    found = trained(kernel.head_loss, x, table, own_PM, g)
    verdict = kernel.head_verdict(x, table, own_PM, IGNORE)
    for p in range(3):
        one = slice(p, p + 1)
        alone = trained(plain, x[one].double(), table[one].double(), own_PM[p], g[one].double())
        for mine, wanted in zip(found, alone, strict=True):
            assert_near(mine[one], wanted, 2e-6)
        right = plain_verdict(x[one], table[one], own_PM[p], IGNORE)[1]
        assert torch.equal(verdict[1][one], right)
        both = plain_verdict(x, table, own_PM, IGNORE)
        assert torch.equal(both[1][one], right)


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES, ids=str)
@pytest.mark.parametrize("shape", cases(), ids=str)
def test_loss_and_gradients_are_those_of_the_plain_form(shape, dtype, tolerance):
    x, table, labels, g = parts(shape, dtype)
    found = trained(kernel.head_loss, x, table, labels, g)
    assert [tensor.dtype for tensor in found] == [torch.float32, dtype, dtype]
    wanted = trained(plain, x.double(), table.double(), labels, g.double())
    # what the plain form loses to sums of thousands of terms in this precision
    rounded = trained(plain, x, table, labels, g)
    for one, other, third in zip(found, wanted, rounded, strict=True):
        assert_near(one, other, max(tolerance, 2 * error(third, other)))


def test_rows_longer_than_a_block(short_blocks):
    x, table, labels, g = parts((2, 6, 7, 65))
    wanted = trained(plain, x.double(), table.double(), labels, g.double())
    for one, other in zip(trained(kernel.head_loss, x, table, labels, g), wanted, strict=True):
        assert_near(one, other, 2e-6)
    assert torch.equal(
        kernel.head_verdict(x, table, labels, IGNORE)[1],
        plain_verdict(x.double(), table.double(), labels, IGNORE)[1],
    )


@pytest.mark.parametrize("shape", cases(), ids=str)
def test_evaluation_counts_the_highest_score(shape):
    x, table, labels, _ = parts(shape)
    scores = torch.bmm(x, table.transpose(1, 2))
    labels[:2] = scores[0, :2].argmax(-1)  # some are right
    loss, right = kernel.head_verdict(x, table, labels, IGNORE)
    assert right.dtype == torch.bool
    assert torch.equal(right, scores.argmax(-1) == labels)
    assert_near(loss, plain(x.double(), table.double(), labels, IGNORE), 2e-6)


@pytest.mark.parametrize("block", [16, 1024])
def test_of_equal_scores_the_first_counts(monkeypatch, block):
    monkeypatch.setattr(kernel, "LONGEST_BLOCK", block)
    x = torch.ones(1, 50, 1, device=DEVICE)
    table = torch.zeros(1, 50, 1, device=DEVICE)
    table[0, [7, 9, 40], 0] = 2.0
    right = kernel.head_verdict(x, table, torch.arange(50, device=DEVICE), IGNORE)[1]
    assert right.nonzero().tolist() == [[0, 7]]


@pytest.mark.parametrize("block", [16, 1024])
def test_scores_that_are_not_numbers(monkeypatch, block):
    """As plain: a first block of -inf is harmless, NaN and inf make the loss NaN,
    and NaN counts as the highest.
    """
    monkeypatch.setattr(kernel, "LONGEST_BLOCK", block)
    scores_PMV = torch.randn(1, 4, 40, device=DEVICE)
    scores_PMV[0, 0, :20] = float("-inf")
    scores_PMV[0, 1, 30] = float("nan")
    scores_PMV[0, 2, 30] = float("inf")
    scores_PMV[0, 3] = float("-inf")
    table, labels = torch.eye(40, device=DEVICE)[None], torch.tensor([25, 30, 30, 0], device=DEVICE)
    # a product would spread what is not a number
    monkeypatch.setattr(kernel, "_scores", lambda x, table: x.clone())
    loss, right = kernel.head_verdict(scores_PMV, table, labels, IGNORE)
    assert torch.equal(right, scores_PMV.argmax(-1) == labels)
    wanted = torch.nn.functional.cross_entropy(scores_PMV[0], labels, reduction="none")
    torch.testing.assert_close(loss[0], wanted, equal_nan=True, rtol=1e-6, atol=1e-6)
    assert loss[0].isnan().tolist() == [False, True, True, True]


def test_a_broken_member_is_not_noticed_and_a_missing_label_has_no_gradient():
    x, table, labels, g = parts((3, 5, 7, 17))
    sound = trained(kernel.head_loss, x, table, labels, g)
    assert not sound[0][:, 2].any()
    assert not sound[1][:, 2].any()
    x = x.clone()
    x[1] = float("nan")
    for one, other in zip(trained(kernel.head_loss, x, table, labels, g), sound, strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])
        assert one[1].isnan().any()


def test_members_apart_and_together():
    x, table, labels, g = parts((3, 5, 7, 17))
    together = trained(kernel.head_loss, x, table, labels, g)
    for one, other in zip(
        trained(kernel.head_loss, x[1:], table[1:], labels, g[1:]), together, strict=True
    ):
        assert_near(one, other[1:].double(), 1e-6)  # the products are the library's
    scores = torch.bmm(x, table.transpose(1, 2))
    losses = kernel._over_rows(scores.clone(), labels, IGNORE, None)
    assert torch.equal(kernel._over_rows(scores[2:].clone(), labels, IGNORE, None), losses[2:])


def test_strided_arguments():
    x, table, labels, g = parts((2, 5, 7, 17))
    wanted = trained(kernel.head_loss, x, table, labels, g)
    strided = x.repeat(1, 1, 2)[..., :7], table.mT.contiguous().mT, labels.repeat_interleave(2)[::2]
    for one, other in zip(trained(kernel.head_loss, *strided, g), wanted, strict=True):
        assert_near(one, other.double(), 1e-6)
    # what a sum gives
    together = trained(kernel.head_loss, x, table, labels, g[:1, :1].expand(2, 5))
    for one, other in zip(
        trained(kernel.head_loss, x, table, labels, g[:1, :1].repeat(2, 5)), together, strict=True
    ):
        assert_near(one, other.double(), 1e-6)


def test_a_table_more_precise_than_its_input_has_a_gradient_as_precise():
    x, table, labels, g = parts((2, 5, 7, 17), torch.bfloat16)
    loss, dx, dtable = trained(kernel.head_loss, x, table.float(), labels, g)
    assert (loss.dtype, dx.dtype, dtable.dtype) == (torch.float32, torch.bfloat16, torch.float32)
    for one, other in zip(
        (loss, dx, dtable),
        trained(plain, x.double(), table.double(), labels, g.double()),
        strict=True,
    ):
        assert_near(one, other, 2e-2)


def test_two_backward_passes_give_the_same():
    x, table, labels, g = parts((2, 5, 7, 17))
    x.requires_grad_()
    loss = kernel.head_loss(x, table, labels, IGNORE)
    (once,) = torch.autograd.grad(loss, x, g, retain_graph=True)
    (twice,) = torch.autograd.grad(loss, x, g)
    assert torch.equal(once, twice)
