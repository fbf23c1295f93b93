"""Checkpoints: every dtype and shape comes back bit for bit, the format is safetensors,
the folder stays small.
"""

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch

from recollect.errors import SpecError, StoreError
from recollect.store import checkpoint
from recollect.store.checkpoint import Checkpoint
from recollect.training.environment import Environment

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
]
DTYPES += [torch.uint8, torch.bool]


def at(step: int, *run_ids: str) -> Checkpoint:
    return Checkpoint(
        run_ids or ("a", "b"), step, {"weights_P": torch.full((2,), float(step))}, {"step": step}
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3, 5)], ids=str)
def test_a_tensor_comes_back_bit_for_bit(
    tmp_path: Path, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    tensor = torch.randint(
        0, 2 if dtype == torch.bool else 100, shape, generator=torch.Generator().manual_seed(0)
    ).to(dtype)
    loaded = checkpoint.load(checkpoint.save(tmp_path, Checkpoint(("a",), 3, {"x": tensor}, {})))
    assert loaded.tensors["x"].dtype == dtype
    assert loaded.tensors["x"].shape == tensor.shape
    assert torch.equal(loaded.tensors["x"], tensor)


def test_views_gradients_and_strange_numbers_come_back(tmp_path: Path) -> None:
    odd = torch.tensor([float("nan"), float("inf"), -0.0, 5e-324], dtype=torch.float64)
    turned = torch.arange(12.0).reshape(3, 4).T[::2]
    weight = torch.nn.Parameter(torch.ones(2))
    loaded = checkpoint.load(
        checkpoint.save(tmp_path, Checkpoint(("a",), 0, {"odd": odd, "t": turned, "w": weight}, {}))
    )
    assert torch.equal(loaded.tensors["odd"].view(torch.int64), odd.view(torch.int64))
    assert torch.equal(loaded.tensors["t"], turned)
    assert torch.equal(loaded.tensors["w"], weight)
    assert not loaded.tensors["w"].requires_grad


def test_the_header_comes_back(tmp_path: Path) -> None:
    state = {"wall_s": 1.5, "frozen": [True, None], "names": {"ü": "\n"}, "big": 2**70}
    there = Environment({"torch": "9.9"}, "a GPU", 3, "AVX512")
    drift = ("from step 2: torch 9.8 -> 9.9",)
    saved = Checkpoint(("b", "a"), 7, {"x": torch.ones(1)}, state, there, drift)
    loaded = checkpoint.load(checkpoint.save(tmp_path, saved))
    assert {**vars(loaded), "tensors": 0} == {**vars(saved), "tensors": 0}
    (found,) = checkpoint.find(tmp_path).saved
    assert (found.environment, found.drift) == (there, drift)
    assert Checkpoint(("a",), 1, {}, {}).environment.versions["torch"] == torch.__version__


def test_the_body_is_plain_safetensors(tmp_path: Path) -> None:
    tensors = {"x": torch.arange(6).reshape(2, 3), "y": torch.tensor([True, False, True])}
    path = checkpoint.save(tmp_path, Checkpoint(("a", "b"), 5, tensors, {}))
    magic, _, body = path.read_bytes().split(b"\n", 2)
    assert magic == b"recollect checkpoint 1"
    theirs = safetensors.torch.load(body)
    assert all(torch.equal(theirs[name], tensor) for name, tensor in tensors.items())
    length = int.from_bytes(body[:8], "little")
    assert json.loads(json.loads(body[8 : 8 + length])["__metadata__"]["recollect"])["run_ids"] == [
        "a",
        "b",
    ]


def test_a_dtype_without_a_name_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(
        SpecError,
        match=r"tensor x: dtype torch\.complex64 cannot be saved; use one of torch\.float64",
    ):
        checkpoint.save(
            tmp_path, Checkpoint(("a",), 1, {"x": torch.ones(2, dtype=torch.complex64)}, {})
        )
    assert list(tmp_path.iterdir()) == []


def test_two_are_kept_of_each_pack(tmp_path: Path) -> None:
    for step in (2, 9, 10, 100):
        checkpoint.save(tmp_path, at(step))
        checkpoint.save(
            tmp_path, at(step, "b", "a")
        )  # another order is another pack: members are found by position
    saved = checkpoint.find(tmp_path).saved
    assert sorted((entry.run_ids, entry.step) for entry in saved) == [
        *((("a", "b"), 10), (("a", "b"), 100)),
        *((("b", "a"), 10), (("b", "a"), 100)),
    ]


def test_a_file_without_a_step_in_its_name_is_left_where_it_is(tmp_path: Path) -> None:
    saved = checkpoint.save(tmp_path, at(2))
    other = saved.with_stem(saved.stem.replace("-2", "-copy"))
    other.write_bytes(saved.read_bytes())
    checkpoint.forget(tmp_path, ("a", "b"))
    assert list(tmp_path.iterdir()) == [other]


def test_the_newest_of_any_pack_with_a_run_is_found(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, at(10, "a", "b"))
    checkpoint.save(tmp_path, at(20, "b", "c"))
    found = checkpoint.find(tmp_path)
    assert {run: entry and entry.step for run in "abcd" for entry in [found.newest(run)]} == {
        "a": 10,
        "b": 20,
        "c": 20,
        "d": None,
    }
    assert checkpoint.find(tmp_path / "none").saved == ()


def test_only_what_nobody_needs_is_discarded(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, at(10, "a", "b"))
    kept = checkpoint.save(tmp_path, at(10, "b", "c"))
    damaged = tmp_path / "x-1.ckpt"
    damaged.write_bytes(b"rubbish")
    assert len(checkpoint.discard(tmp_path, ["a", "b"])) == 1
    assert sorted(tmp_path.iterdir()) == sorted([kept, damaged])


def test_damaged_files_never_cover_one_another(tmp_path: Path) -> None:
    for content in (b"one", b"two", b"three"):
        (tmp_path / "x-1.ckpt").write_bytes(content)
        (problem,) = checkpoint.find(tmp_path).problems
        assert "it does not begin like a checkpoint" in problem
    assert sorted(path.read_bytes() for path in tmp_path.glob("*.bad")) == [
        b"one",
        b"three",
        b"two",
    ]


def test_a_folder_in_the_place_of_a_checkpoint_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "y-1.ckpt").mkdir()
    assert "it is no regular file" in checkpoint.find(tmp_path).problems[0]
    assert [path.name for path in tmp_path.iterdir()] == ["y-1.bad"]


def test_what_cannot_be_read_now_is_left_in_place(tmp_path: Path) -> None:
    newer = tmp_path / "x-1.ckpt"
    newer.write_bytes(b"recollect checkpoint 3\nsomething to come")
    problems = checkpoint.find(tmp_path).problems
    assert "written by another version of recollect; upgrade" in problems[0]
    assert newer.exists()
    with pytest.raises(StoreError, match="no such checkpoint"):
        checkpoint.load(tmp_path / "z-1.ckpt")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        SpecError, match=r"file: cannot be written \(.*\); choose a folder you may write to"
    ):
        checkpoint.save(tmp_path / "file", at(1))


def test_a_file_cut_off_inside_its_first_line_is_damaged_not_newer(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, at(1, "a"))
    path.write_bytes(path.read_bytes()[: len("recollect checkpoint 1")])
    found = checkpoint.find(tmp_path)
    assert found.saved == ()
    assert not path.exists()
    assert len(found.problems) == 1


@pytest.mark.parametrize(
    ("sealed", "opened", "why"),
    [
        (b"one store", b"another", "is wrong, or it was sealed with another key"),
        (b"", b"one store", "it is sealed without a key"),
        (b"one store", b"", "it is sealed with a key, and none is known here"),
    ],
)
def test_a_checkpoint_belongs_to_the_store_whose_key_sealed_it(
    tmp_path: Path, sealed: bytes, opened: bytes, why: str
) -> None:
    path = checkpoint.save(tmp_path, at(7), sealed)
    assert checkpoint.load(path, sealed).step == 7
    with pytest.raises(StoreError, match=why):
        checkpoint.load(path, opened)
    assert checkpoint.discard(tmp_path, ["a", "b"], opened) == []
    found = checkpoint.find(tmp_path, opened)
    assert found.saved == ()
    assert "kept as" in found.problems[0]
    assert not path.exists()


def with_header(folder: Path, change: dict[str, object]) -> Path:
    header = {"run_ids": ["a"], "step": 0, "state": {}, **change}
    checkpoint.FORMAT.write(folder / "x-1.ckpt", header, {"x": torch.ones(1)})
    return folder / "x-1.ckpt"


@pytest.mark.parametrize(
    "change",
    [
        *({"threads": "two"}, {"threads": 0}, {"versions": [1]}, {"cpu": 7}),
        *({"drift": "x"}, {"drift": [1]}, {"state": []}, {"state": None}),
        *({"step": -1}, {"step": True}, {"step": 1.0}, {"step": None}),
        *({"run_ids": []}, {"run_ids": ["a", "a"]}, {"run_ids": [1]}, {"run_ids": "a"}),
    ],
    ids=repr,
)
def test_a_header_that_no_program_wrote_is_damage(tmp_path: Path, change: dict[str, object]):
    assert checkpoint.load(with_header(tmp_path, {})).step == 0
    with pytest.raises(StoreError, match="damaged or foreign"):
        checkpoint.load(with_header(tmp_path, change))
