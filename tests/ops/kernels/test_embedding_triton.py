"""The embedding's kernels against indexing and its gradient in float64."""

import pytest
import torch
from torch import Tensor

from recollect.ops import embedding as embedding_of

kernel = pytest.importorskip(
    "recollect.ops.embedding.triton_kernel", reason="Triton is not installed"
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def cases() -> list[tuple[int, int, int, int, int]]:
    """P, V, D, B, L."""
    small = [
        (1, 1, 1, 1, 1),
        (3, 5, 7, 5, 2),
        (1, 100, 17, 2, 17),
        (1, 20, 1, 33, 2),
        (2, 30, 65, 1, 5),
        (1, 7, 64, 1, 17),
    ]
    return small + (
        [(16, 8192, 64, 512, 64), (4, 8192, 512, 256, 256), (2, 8192, 128, 256, 255)]
        if DEVICE == "cuda"
        else []
    )


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    """Small lists have many chunks, and a long run more parts than are read at a time; real sizes
    on a GPU keep theirs.
    """
    if DEVICE == "cpu":
        monkeypatch.setattr(kernel, "CHUNK", 4)
        monkeypatch.setattr(kernel, "PARTS", 4)


def parts(
    shape: tuple[int, int, int, int, int], filler: float = 0.75, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    population, entries, width, batch, length = shape
    generator = torch.Generator().manual_seed(1)
    table_PVD = torch.randn(population, entries, width, generator=generator).to(DEVICE, dtype)
    ids_BL = torch.randint(entries, (batch, length), generator=generator)
    ids_BL[torch.rand(batch, length, generator=generator) < filler] = 0
    return (
        table_PVD,
        ids_BL.to(DEVICE),
        torch.randn(population, batch, length, width, generator=generator).to(DEVICE, dtype),
    )


def gradient(table: Tensor, ids: Tensor, g: Tensor) -> Tensor:
    table = table.detach().requires_grad_()
    return torch.autograd.grad(kernel.embedding(table, ids), table, g)[0]


def assert_is_the_sum(found: Tensor, ids: Tensor, g: Tensor, tolerance: float = 2e-6) -> None:
    wanted = torch.zeros(found.shape, dtype=torch.float64, device=DEVICE)
    wanted.index_add_(1, ids.flatten(), g.flatten(1, 2).double())
    assert float((found.double() - wanted).abs().max()) <= tolerance * float(wanted.abs().max())
    absent = torch.ones(found.shape[1], dtype=torch.bool, device=DEVICE).index_fill_(
        0, ids.flatten(), False
    )
    assert not found[:, absent].any()


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 1e-2)], ids=str
)
@pytest.mark.parametrize("shape", cases(), ids=str)
def test_rows_and_their_sums(shape, dtype, tolerance):
    table, ids, g = parts(shape, dtype=dtype)
    assert torch.equal(kernel.embedding(table, ids), table[:, ids])
    found = gradient(table, ids, g)
    assert found.dtype == dtype
    assert_is_the_sum(found, ids, g, tolerance)


@pytest.mark.parametrize(
    "runs",
    [
        [1] * 12,
        [4, 4, 4],
        [3, 5, 1, 7],
        [13],
        [2, 11, 3],
        [1, 4, 4, 1],
        [50, 1],
        [4, 36, 2],
        [5, 16, 4],
    ],
    ids=str,
)
def test_runs_that_end_before_on_and_behind_the_border_of_a_chunk(runs):
    ids = torch.repeat_interleave(torch.arange(len(runs)) * 2 + 1, torch.tensor(runs)).to(DEVICE)
    ids = ids[torch.randperm(len(ids), generator=torch.Generator().manual_seed(0)).to(DEVICE)][None]
    table, _, g = parts((2, 2 * len(runs) + 1, 3, 1, sum(runs)))
    assert_is_the_sum(gradient(table, ids, g), ids, g)


@pytest.mark.parametrize("filler", [0.0, 1.0])
def test_no_filler_and_nothing_else(filler):
    table, ids, g = parts((2, 9, 1, 5, 17), filler)
    assert_is_the_sum(gradient(table, ids, g), ids, g)


def test_the_chunks_of_real_use(monkeypatch):
    monkeypatch.undo()
    table, ids, g = parts((1, 40, 1, 33, 17))
    assert_is_the_sum(gradient(table, ids, g), ids, g)


def test_members_alone_and_together_and_again():
    table, ids, g = parts((3, 5, 2, 5, 5))
    together = gradient(table, ids, g)
    assert torch.equal(gradient(table, ids, g), together)
    for p in range(3):
        assert torch.equal(gradient(table[p : p + 1], ids, g[p : p + 1]), together[p : p + 1])


def test_what_is_not_a_number_stays_with_its_member_and_id():
    table, ids, g = parts((3, 5, 2, 5, 5))
    sound = gradient(table, ids, g)
    g = g.clone()
    g[1, ids == 0] = float("nan")
    found = gradient(table, ids, g)
    assert found[1, 0].isnan().all()
    found[1, 0] = sound[1, 0]
    assert torch.equal(found, sound)


def test_strided_arguments():
    table, ids, g = parts((2, 9, 3, 2, 5))
    wanted = gradient(table, ids, g)
    strided = table.mT.contiguous().mT, ids.T.contiguous().T, g.repeat(1, 1, 1, 2)[..., :3]
    assert torch.equal(kernel.embedding(*strided[:2]), table[:, ids])
    assert torch.equal(gradient(*strided), wanted)
    assert torch.equal(
        gradient(table, ids, g[:, :1, :1].expand(2, 2, 5, 3)),
        gradient(table, ids, g[:, :1, :1].repeat(1, 2, 5, 1)),
    )


def test_ids_of_each_member_are_looked_up_in_its_own_table(monkeypatch):
    """With the kernel below it, as on a GPU."""
    monkeypatch.setattr(embedding_of, "use_triton", lambda *tensors: True)
    table, ids, g = parts((3, 9, 2, 5, 7))
    own_PBL = torch.stack([ids, ids.flip(0), (ids + 1) % 9])
    table.requires_grad_()
    found = embedding_of.embedding(table, own_PBL)
    dtable = torch.autograd.grad(found, table, g)[0]
    for p in range(3):
        assert torch.equal(found[p], table[p, own_PBL[p]])
        assert_is_the_sum(dtable[p : p + 1], own_PBL[p], g[p : p + 1])
