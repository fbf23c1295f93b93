"""A check of a folder in which others train: they remove checkpoints and weights."""

import pytest

from recollect import api
from recollect.spec.sweep import build_sweep
from recollect.store import checkpoint, weights
from recollect.store.checking import folder as checking

SWEEP = {
    "task": {"name": "mqar", "vocabulary": 32, "length": 8, "pairs": 2, "data": "fresh"},
    "model": {"mixer": "attention", "width": 16, "depth": 1},
    "train": {"steps": 2, "batch": 8, "evaluations": 1},
}


@pytest.mark.parametrize("module", [checkpoint, weights])
def test_a_file_removed_since_the_folder_was_listed_is_no_finding(tmp_path, monkeypatch, module):
    api.run(build_sweep(SWEEP), tmp_path, device="cpu")
    saved = tmp_path / checking.CHECKPOINTS / f"saved{checkpoint.SUFFIX}"
    saved.parent.mkdir(exist_ok=True)
    saved.write_bytes(b"no checkpoint")
    name = "load" if module is checkpoint else "read"
    read = getattr(module, name)

    def removed_first(path, *key):
        path.unlink()
        return read(path, *key)

    found = checking.check_folder(tmp_path)
    assert (found.weights, len(found.findings)) == (1, 1)
    monkeypatch.setattr(module, name, removed_first)
    found = checking.check_folder(tmp_path)
    if module is checkpoint:
        assert (found.weights, found.findings) == (1, ())
    else:
        assert (found.weights, len(found.findings)) == (0, 1)
