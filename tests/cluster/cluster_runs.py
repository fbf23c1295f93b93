"""A sweep of 24 runs, its rows as one undisturbed process makes them, and the schedulers."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from slurm_site import SlurmSite, missing, slurm_site

from recollect.running.results import RunSet

SWEEP = """
name = "small"
[task]
name = "mqar"
vocabulary = 32
length = 16
pairs = 2
train_rows = 256
test_rows = 64
[model]
width = 16
depth = 1
[train]
steps = 1200
batch = 32
evaluations = 12
[sweep]
model.mixer = ["attention", { name = "mamba", state = 4 }]
train.lr = [1e-3, 3e-3, 1e-2, 3e-2]
seed = [1, 2, 3]
"""
PACKS = 8
Outcome = dict[str, object]


def recollect(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, code: int = 0
) -> str:
    """The command line as a user calls it."""
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "recollect", *map(str, arguments)],
        env=dict(environment or os.environ) | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == code, (
        f"{arguments}: {ended.returncode}\n{ended.stdout}{ended.stderr}"
    )
    assert "Traceback" not in ended.stderr
    return ended.stdout + ended.stderr


def outcome(folder: Path) -> Outcome:
    """Every number of every run."""
    found = RunSet.load(folder)
    return {
        row.run_id: (row.status, row.steps, row.stopped_early, found.curves.get(row.run_id))
        for row in found.rows
    }


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "small.toml"
    path.write_text(SWEEP)
    return path


@pytest.fixture(scope="session")
def undisturbed(sweep: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("undisturbed")
    recollect("run", sweep, "--out", folder, "--device", "cpu", "--keep", "none", "--workers", "1")
    found = outcome(folder)
    assert len(found) == 24
    return found


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    why = missing()
    if why:
        pytest.skip(f"no Slurm: {why}")
    with slurm_site(tmp_path_factory.mktemp("slurm").resolve() / "site") as running:
        yield running


@pytest.fixture
def submitted(site: SlurmSite, sweep: Path, tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Hands the sweep to Slurm; whatever is left of it ends with the test."""

    def submit(*options: str) -> Path:
        out = tmp_path / "out"
        said = recollect(
            *("submit", sweep, "--out", out, "--slurm", "--gres", "", "--cpus", "1"),
            *("--device", "cpu", "--runs-per-pack", "3", *options),
            environment=site.environment,
        )
        assert f"{PACKS} packs" in said
        return out

    yield submit
    site.ask("scancel", "-u", "root")
    site.wait("an empty queue", lambda: not site.running())
