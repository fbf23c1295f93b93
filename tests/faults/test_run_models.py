"""Kept weights under kill -9: whatever happens between two durable steps, a resumed sweep keeps the
same files, bit for bit.
"""

import signal
from pathlib import Path

import pytest
import run_workers
from harness import child
from run_workers import M, plan

from recollect.store import Store, failpoint
from recollect.store import weights as keep

# One mixer, one run after the other, so that the best changes hands.
RUNS = (
    M.partition("[sweep]")[0]
    + '[sweep]\nmodel.mixer = ["attention"]\ntrain.lr = [1e-3, 3e-3, 1e-2]\n'
)
RUNS = RUNS.replace("steps = 24", "steps = 8").replace("evaluations = 6", "evaluations = 4")


def prepare(folder: Path) -> None:
    plan(folder, RUNS)
    with Store.open(folder) as store:
        keep.KeepPolicy.parse("best", snapshots=2).remember(store)


def live(folder: Path, armed: str) -> tuple[int, list[str]]:
    journal = folder.with_name(f"{folder.name}-{armed}")
    with child(
        journal, run_workers.train_all, folder, RUNS, 1, environment={failpoint.VARIABLE: armed}
    ) as running:
        return running.end(), running.acknowledged()


def models(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted((folder / keep.FOLDER).rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[str, bytes], dict[str, int]]:
    """What is kept of a sweep that nothing disturbs, and how often it passes each failpoint."""
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    prepare(folder)
    code, lines = live(folder, "store.written:1000000")
    assert code == 0
    passed = [line.split()[1:] for line in lines if line.startswith("passed")]
    kept = models(folder)
    assert len(kept) == 3, "one run and two snapshots of it"
    return kept, {name: int(times) for name, times in passed}


@pytest.mark.parametrize(
    "name", ["file.written", "file.renamed", "file.durable", "store.committed"]
)
def test_a_killed_sweep_keeps_the_same_weights(
    tmp_path: Path, name: str, undisturbed: tuple[dict[str, bytes], dict[str, int]]
) -> None:
    kept, passings = undisturbed
    for passing in range(1, passings[name] + 1, 2):
        folder = tmp_path / str(passing)
        prepare(folder)
        assert live(folder, f"{name}:{passing}")[0] == -signal.SIGKILL
        for path in (folder / keep.FOLDER).rglob(f"*{keep.SUFFIX}"):
            keep.read(path)  # no half file, ever
        with Store.open(folder) as store:
            done = [row.run_id for row in store.rows() if row.status == "done"]
        best = [about.run_id for about in keep.list_kept(folder / keep.FOLDER)]
        assert not done or set(done) & set(best), "a finished cell has lost its weights"
        assert live(folder, "store.written:1000000")[0] == 0
        assert models(folder) == kept, f"{name}:{passing}"
