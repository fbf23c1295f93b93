"""A module planted in a folder of results is not imported, whatever the working directory."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from recollect.running.planning import compile_ahead
from recollect.store import Store

SPEC = """
[task]
name = "mqar"
vocabulary = 32
length = 16
pairs = 4
train_rows = 128
test_rows = 64
[model]
mixer = "attention"
width = 16
[train]
steps = 6
batch = 32
evaluations = 2
[sweep]
seed = [1, 2, 3, 4]
"""
# Standard modules that a starting Python, multiprocessing or torch imports.
NAMES = ("socket", "random", "queue", "subprocess", "tempfile", "shutil", "traceback", "copyreg")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where each planted module says that it was run."""
    out = tmp_path / "out"
    out.mkdir()
    for name in NAMES:
        (out / f"{name}.py").write_text(
            f"open({str(tmp_path / name)!r}, 'w')\nraise SystemExit(0)\n"
        )
    (tmp_path / "sweep.toml").write_text(SPEC)
    return out


def executed(folder: Path) -> list[str]:
    return [name for name in NAMES if (folder.parent / name).exists()]


def recollect(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As the console script starts it: its own directory first on the import path, not this one."""
    script = folder.parent / "bin" / "recollect"
    script.parent.mkdir(exist_ok=True)
    home = Path(__file__).parents[2]
    script.write_text(
        textwrap.dedent(f"""
        import sys
        sys.path.append({str(home)!r})
        from recollect.cli import main
        if __name__ == "__main__":
            main()
        """)
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env=environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_worker_processes_import_nothing_from_the_folder(folder: Path) -> None:
    ended = recollect(folder, "run", "../sweep.toml", "--out", ".", "--workers", "2")
    assert executed(folder) == []
    assert ended.returncode == 0, ended.stderr
    with Store.open(folder, read_only=True) as store:
        assert store.counts()["done"] == 4


def test_processes_that_compile_ahead_import_nothing_from_the_folder(folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    with compile_ahead._start_process(torch.device("cpu")) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    assert executed(folder) == []
