"""A sweep of 24 runs, its rows as one undisturbed process makes them, and the schedulers."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from figures import Figures
from slurm_site import SiteError, SlurmSite, missing, slurm_site

from recollect.rows import Evaluation
from recollect.running.cluster.collect import Collected, Collector
from recollect.running.cluster.plan import read_plan
from recollect.running.cluster.spool import SpoolContent, attempts, read_spool
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
mixer = "attention"
depth = 1
[train]
steps = 600
batch = 16
evaluations = 12
[sweep]
model.width = [8, 16]
train.lr = [1e-3, 3e-3, 1e-2, 3e-2]
seed = [1, 2, 3]
"""
PACKS = 4
Outcome = dict[str, tuple[str, int | None, str | None, list[Evaluation] | None]]


def recollect(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, code: int = 0
) -> str:
    """The command line as a user calls it."""
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "recollect", *map(str, arguments)],
        env=dict(environment or os.environ) | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
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


def look(out: Path) -> Collected:
    with Collector(read_plan(out)) as collector:
        return collector.collect()


def spools(out: Path, pack: int) -> list[SpoolContent]:
    return [read_spool(out, pack, attempt) for attempt in attempts(out, pack)]


def trains(out: Path, pack: int) -> bool:
    """Its last attempt has made steps and has not ended."""
    found = spools(out, pack)
    return bool(found) and found[-1].furthest > 0 and not found[-1].ended


def compare(out: Path, undisturbed: Outcome, figures: Figures) -> Collected:
    """Every run is there once, as one undisturbed process trains it."""
    found, rows = look(out), outcome(out)
    assert found.is_complete
    assert not found.conflicts
    assert not found.problems
    assert rows == undisturbed
    figures.attempts = sum(pack.attempts for pack in found.packs)
    figures.runs = len(rows)
    figures.points = sum(len(curve or ()) for *_, curve in rows.values())
    assert figures.points >= 12 * figures.runs
    return found


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
def site(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[SlurmSite]:
    why = missing()
    if why:
        pytest.skip(f"no Slurm: {why}")
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("slurm").resolve() / "site"
        try:
            running = stack.enter_context(slurm_site(folder))
        except SiteError as error:
            if request.config.getoption("--if-possible", default=False):
                pytest.skip(f"Slurm does not start here: {error}")
            raise
        yield running


@pytest.fixture
def submitted(site: SlurmSite, sweep: Path, tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Hands the sweep to Slurm; whatever is left of it ends with the test."""

    def submit(*options: str, out: Path = tmp_path / "out") -> Path:
        said = recollect(
            *("submit", sweep, "--out", out, "--slurm", "--gres", "", "--cpus", "1"),
            *("--device", "cpu", "--runs-per-pack", "6", *options),
            environment=site.environment,
        )
        assert f"{PACKS} packs" in said
        return out

    yield submit
    for payload in site.payloads():
        payload.send(signal.SIGCONT)
    site.ask("scancel", "-u", "root")
    site.wait("an empty queue", lambda: not site.running())
