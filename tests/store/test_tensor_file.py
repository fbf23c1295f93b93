"""Tensor files: what earlier versions wrote is read and written again, byte for byte where the file
is kept for good.

The files in fixtures/ were written by recollect/checkpoint.py and recollect/keep.py of commit
be4d9e8.
"""

import os
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch

from recollect.errors import StoreError
from recollect.store import checkpoint, tensor_file, weights
from recollect.store.tensor_file import TensorFormat
from recollect.store.weights import WeightsHeader
from recollect.training.environment import Environment

FIXTURES = Path(__file__).parent / "fixtures"
PLAIN, SEALED = TensorFormat(remedy=""), TensorFormat(remedy="", sealed_as="thing")
TENSORS = {
    "wide": torch.arange(3),
    "ü": torch.tensor(1.5),
    "half": torch.tensor([[1.5], [-2.0]], dtype=torch.bfloat16),
    "a": torch.arange(6.0).reshape(2, 3).T,
    "flag": torch.tensor([True, False, True]),
    "empty": torch.zeros(0, 4),
}


def test_an_old_checkpoint_loads(tmp_path):
    path = Path(shutil.copy(FIXTURES / "be4d9e8.ckpt", tmp_path / "x-7.ckpt"))
    loaded = checkpoint.load(path)
    assert (loaded.run_ids, loaded.step) == (("run-a", "run-b"), 7)
    assert loaded.state == {"wall_s": 1.5, "steps_since_evaluation": 2}
    known = {"recollect": "0.1.0", "torch": "2.11.0", "python": "3.11.7"}
    assert loaded.environment == Environment(known, "cpu", 2, "")
    expected = {
        "weight/a": torch.arange(6, dtype=torch.float32).reshape(2, 3) / 7,
        "diverged": torch.tensor([0, 5]),
        "loss_sum": torch.tensor([0.5, float("nan")]),
        "half": torch.tensor([[1.5], [-2.0]], dtype=torch.bfloat16),
    }
    assert loaded.tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(loaded.tensors[name], tensor, rtol=0, atol=0, equal_nan=True)
    assert checkpoint.find(tmp_path).newest("run-b").step == 7


def test_an_old_file_of_weights_loads_and_is_written_again_byte_for_byte(tmp_path):
    header, tensors = weights.read(FIXTURES / "be4d9e8.safetensors")
    assert header == WeightsHeader("0123456789abcdef", "fedcba9876543210", 40, 0.75, 0.5, "best")
    assert torch.equal(tensors["embedding.weight"], torch.arange(6.0).reshape(2, 3) / 7)
    assert weights.list_kept(FIXTURES) == [header]
    weights.write(tmp_path / "again.safetensors", tensors, header)
    again = (tmp_path / "again.safetensors").read_bytes()
    assert again == (FIXTURES / "be4d9e8.safetensors").read_bytes()


@pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=["plain", "sealed"])
def test_tensors_and_header_come_back(kind, tmp_path):
    path = tmp_path / "new" / "file"
    kind.write(path, {"step": 3, "names": ["ü"]}, TENSORS)
    header, tensors = kind.read(path)
    assert header == kind.read_header(path) == {"step": 3, "names": ["ü"]}
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    body = path.read_bytes() if kind is PLAIN else path.read_bytes().split(b"\n", 2)[2]
    theirs = safetensors.torch.load(body)
    assert all(torch.equal(theirs[name], TENSORS[name]) for name in TENSORS)


def test_one_layout_is_not_taken_for_the_other(tmp_path):
    PLAIN.write(tmp_path / "plain", {}, TENSORS)
    SEALED.write(tmp_path / "sealed", {}, TENSORS)
    with pytest.raises(StoreError, match="it does not begin like a thing"):
        SEALED.read(tmp_path / "plain")
    for read in (PLAIN.read, PLAIN.read_header):
        with pytest.raises(StoreError, match="damaged or foreign"):
            read(tmp_path / "sealed")
    foreign = safetensors.torch.save({"x": torch.ones(1)}, {"recollect": "[]"})
    (tmp_path / "foreign").write_bytes(foreign)
    for read in (PLAIN.read, PLAIN.read_header):
        with pytest.raises(StoreError, match="damaged or foreign"):
            read(tmp_path / "foreign")


def test_reading_a_header_opens_a_file_that_others_may_remove_but_once(tmp_path, monkeypatch):
    """Safetensors opens a file a second time for torch; if it has gone, torch raises an error that
    says nothing about files.
    """

    def opened_again(name, *_arguments, **_options):
        raise RuntimeError(f"unable to open file <{name}> in read-only mode")

    path = tmp_path / "file"
    PLAIN.write(path, {"step": 3}, TENSORS)
    monkeypatch.setattr(torch.UntypedStorage, "from_file", opened_again)
    with pytest.raises(RuntimeError, match="unable to open file"):
        safetensors.safe_open(path, "pt")
    assert PLAIN.read_header(path) == {"step": 3}

    def opened_and_removed(path):
        handle = os.open(path, os.O_RDONLY)
        path.unlink()
        return handle

    monkeypatch.setattr(tensor_file, "open_regular", opened_and_removed)
    with pytest.raises(FileNotFoundError):
        PLAIN.read_header(path)
