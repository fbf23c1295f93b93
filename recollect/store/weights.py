"""Weights of finished runs, for inspection.

The weights of a run are in DIR/models/RUN_ID.safetensors, and snapshots at earlier steps in
DIR/models/RUN_ID/STEP.safetensors. Each is a plain tensor file.

The best run of a cell has the highest score, then the lowest loss, then the lowest id, so it does
not depend on the order in which runs end. A killed process loses nothing: weights are on the disk
before their run counts as finished, and an unfinished run writes them again. Weights of beaten runs
are removed only after that. `tidy` removes what a killed process did not get to remove.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from recollect.errors import StoreError
from recollect.rows import Evaluation
from recollect.spec.cell import cell_id
from recollect.spec.run import RunSpec
from recollect.store import Store
from recollect.store.durable import sweep_orphans
from recollect.store.keep_policy import KeepPolicy
from recollect.store.tensor_file import Header, TensorFormat
from recollect.training.loop import Evaluated
from recollect.training.population import Population

FOLDER, SUFFIX = "models", ".safetensors"
FORMAT = TensorFormat(remedy="\nremove it; `recollect inspect` then trains that run once more")


@dataclass(frozen=True)
class WeightsHeader:
    """Header of a file of weights; the field names are those in the file."""

    run_id: str
    cell: str
    step: int
    score: float
    test_loss: float
    why: Literal["best", "asked"]  # only files kept as "best" are removed for a better run

    @classmethod
    def of(
        cls, run: RunSpec, step: int, score: float, test_loss: float, why: Literal["best", "asked"]
    ) -> "WeightsHeader":
        cell = cell_id(run.model_dump(mode="json"))
        return cls(run.run_id, cell, step, score, test_loss, why)

    @property
    def rank(self) -> tuple[float, float, tuple[int, ...]]:
        """Sort key: larger is better, and no two runs are equal."""
        return self.score, -self.test_loss, tuple(-ord(letter) for letter in self.run_id)


class Keeper:
    """Writes and removes weights while runs are evaluated and end, for one worker and folder."""

    def __init__(self, folder: Path, policy: KeepPolicy):
        self.folder, self.policy = folder / FOLDER, policy
        self._best: dict[str, WeightsHeader] = {}  # by cell, among finished runs
        self._written: dict[str, WeightsHeader] = {}  # by run id, of runs whose end is not stored

    def write_evaluated(self, population: Population, event: Evaluated) -> None:
        """Write the weights that may have to be kept; call it before the event is stored."""
        ended = [end.run for end in event.ends if end.run.run_id in event.evaluations]
        for run in self._choose(ended, event.evaluations):
            header = self._header(run, event.evaluations[run.run_id])
            write(self.folder / f"{run.run_id}{SUFFIX}", population.weights(run.run_id), header)
            self._written[run.run_id] = header
        if self.policy.snapshots:
            self._write_snapshots(population, event)

    def _write_snapshots(self, population: Population, event: Evaluated) -> None:
        ended = {end.run.run_id for end in event.ends}
        for run in population.members:
            found = event.evaluations.get(run.run_id)
            wanted = run.run_id not in ended and (self.policy.best or self.policy.asks_for(run))
            if wanted and found and found.step in self.policy.snapshot_steps(run):
                path = self.folder / run.run_id / f"{found.step}{SUFFIX}"
                write(path, population.weights(run.run_id), self._header(run, found))

    def remove_beaten(self, run_ids: Iterable[str]) -> None:
        """Remove the weights that these runs have beaten, and snapshots of runs that are not kept.

        Call it after the ends of these runs are stored.
        """
        for run_id in run_ids:
            header = self._written.pop(run_id, None)
            if header is None:
                _remove(self.folder, run_id)
                continue
            before = self._best.get(header.cell)
            if before is None or header.rank > before.rank:
                self._best[header.cell] = header
                if before is not None and before.why == "best" and before.run_id != run_id:
                    _remove(self.folder, before.run_id)

    def tidy(self, store: Store) -> None:
        """Read the kept weights of finished runs, and remove those of runs that are not the best.

        Such files were left by a killed process or written by another worker.
        """
        if not self.folder.is_dir():
            return
        rows = {row.run_id: row for row in store.rows()}
        done = {run_id for run_id, row in rows.items() if row.status == "done"}
        finished = {run_id for run_id, row in rows.items() if row.is_finished}
        for place in (self.folder, *(path for path in self.folder.iterdir() if path.is_dir())):
            sweep_orphans(place)
        kept = {header.run_id: header for header in list_kept(self.folder) if header.run_id in done}
        self._best = {}
        for header in sorted(kept.values(), key=lambda header: header.rank):
            self._best[header.cell] = header
        winners = {header.run_id for header in self._best.values()}
        for header in kept.values():
            if header.why == "best" and header.run_id not in winners:
                _remove(self.folder, header.run_id)
        for path in self.folder.iterdir():
            if path.is_dir() and path.name in finished and path.name not in kept:
                _remove(self.folder, path.name)

    def _choose(
        self, ended: Sequence[RunSpec], evaluations: Mapping[str, Evaluation]
    ) -> list[RunSpec]:
        """Runs that the policy asks for, and the best run of each cell if it beats the kept one."""
        asked = [run for run in ended if self.policy.asks_for(run)]
        if not self.policy.best:
            return asked
        headers = {run: self._header(run, evaluations[run.run_id]) for run in ended}
        by_cell: dict[str, RunSpec] = {}
        for run in sorted(ended, key=lambda run: headers[run].rank):
            best = self._best.get(headers[run].cell)
            if best is None or headers[run].rank > best.rank:
                by_cell[headers[run].cell] = run
        return asked + [run for run in by_cell.values() if run not in asked]

    def _header(self, run: RunSpec, found: Evaluation) -> WeightsHeader:
        score = found.score(run.task.score_name)
        why: Literal["best", "asked"] = "asked" if self.policy.asks_for(run) else "best"
        return WeightsHeader.of(run, found.step, score, found.test_loss, why)


def write(path: Path, weights: Mapping[str, Tensor], header: WeightsHeader) -> None:
    FORMAT.write(path, asdict(header), weights)


def read(path: Path) -> tuple[WeightsHeader, dict[str, Tensor]]:
    """Read the weights at `path` and their header; raise StoreError if a weight has changed."""
    header, weights = FORMAT.read(path)
    return _checked(path, header), weights


def list_kept(folder: Path) -> list[WeightsHeader]:
    """Headers of the final weights of all runs in a folder of weights, without damaged files."""
    headers = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with contextlib.suppress(OSError, StoreError):
            headers.append(_checked(path, FORMAT.read_header(path)))
    return headers


def kept_files(folder: Path, run_id: str) -> list[Path]:
    """Files of one run in a folder of results: snapshots by step, then the final weights.

    Empty if the run was not kept.
    """
    final = folder / FOLDER / f"{run_id}{SUFFIX}"
    if not final.exists():
        return []
    snapshots = (folder / FOLDER / run_id).glob(f"*{SUFFIX}")
    return [*sorted(snapshots, key=lambda path: int(path.stem)), final]


def _checked(path: Path, header: Header) -> WeightsHeader:
    try:
        return WeightsHeader(**header)
    except TypeError as error:
        raise FORMAT.damaged(path, repr(error)) from None


def _remove(folder: Path, run_id: str) -> None:
    """Remove all files of a run, snapshots first.

    If this is interrupted, the remaining files still belong to a run whose final weights exist.
    """
    own = folder / run_id
    # Another worker may be removing the same files; the next `tidy` removes what remains.
    with contextlib.suppress(OSError):
        for path in own.iterdir() if own.is_dir() else ():
            path.unlink(missing_ok=True)
        if own.is_dir():
            own.rmdir()
        (folder / f"{run_id}{SUFFIX}").unlink(missing_ok=True)
