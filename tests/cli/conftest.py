"""A sweep of four runs that trains in a second."""

from pathlib import Path

import pytest

TINY = """
[task]
name = "mqar"
vocabulary = 32
length = 16
train_rows = 64
test_rows = 32
[model]
width = 8
depth = 1
[train]
batch = 32
steps = 4
evaluations = 2
[sweep]
model.mixer = ["attention", "mamba"]
train.lr = [1e-3, 1e-2]
"""


@pytest.fixture(scope="session")
def tiny_sweep() -> str:
    return TINY


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path
