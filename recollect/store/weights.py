"""Weights of finished runs, for looking inside: DIR/models/RUN_ID.safetensors, and on the way there
RUN_ID/STEP.safetensors.

What is kept is said by a list of words: `best` (of each cell the best run: highest score, then
lowest loss, then lowest id), `all`, `none`, `seed:N`, or the beginning of a run's id. A cell's best
run is the same whatever order the runs end in. Nothing is lost to a kill: weights are on the disk
before their run counts as finished, so a run that is not finished writes them again; what was
beaten is removed only after that. `tidy` removes what a killed process would have removed. A file
is plain safetensors with a checksum of its tensors among the metadata.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Self

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from recollect.errors import SpecError, StoreError
from recollect.rows import FINISHED, Evaluation
from recollect.spec.run import RunSpec
from recollect.store import Store
from recollect.store.durable import make_folder, sweep_orphans, write_atomically
from recollect.training.loop import Looked
from recollect.training.population import Population

FOLDER, SUFFIX = "models", ".safetensors"
MOST_SNAPSHOTS = 1_000
_META_KEEP, _META_SNAPSHOTS = "keep", "snapshots"
_RUN_PREFIX = re.compile(r"[0-9a-f]{4,16}")


@dataclass(frozen=True)
class Policy:
    """Which weights are kept."""

    words: tuple[str, ...] = ("best",)
    snapshots: int = 0  # of the evaluation steps before the last, evenly spaced

    @classmethod
    def parse(cls, text: str, snapshots: int = 0) -> Self:
        words = tuple(word.strip() for word in text.split(","))
        for word in words:
            seed = word.removeprefix("seed:")
            if not (
                word in ("best", "all", "none")
                or (seed != word and seed.isdecimal())
                or _RUN_PREFIX.fullmatch(word)
            ):
                raise SpecError(
                    f"--keep {word!r}: must be best, all, none, seed:N or the "
                    "beginning of "
                    "a run id (4 to 16 hex digits)\n"
                    "several may be joined by commas, for example --keep best,seed:42"
                )
        if "none" in words and len(words) > 1:
            raise SpecError(f"--keep {text!r}: none cannot be joined with others; leave it out")
        if not 0 <= snapshots <= MOST_SNAPSHOTS:
            raise SpecError(f"--snapshots {snapshots}: must be between 0 and {MOST_SNAPSHOTS}")
        return cls(words, snapshots)

    @classmethod
    def of(cls, store: Store) -> Self:
        """What was asked for when the folder's runs were planned, or the default."""
        return cls.parse(
            store.meta(_META_KEEP) or ",".join(cls().words), int(store.meta(_META_SNAPSHOTS) or 0)
        )

    def remember(self, store: Store) -> None:
        """Write it down, so that a resumed sweep keeps the same."""
        store.set_meta(_META_KEEP, ",".join(self.words))
        store.set_meta(_META_SNAPSHOTS, str(self.snapshots))

    def asks_for(self, run: RunSpec) -> bool:
        """Whether this run is kept however well it does."""
        seed = f"seed:{run.seed}"
        return any(word in ("all", seed) or run.run_id.startswith(word) for word in self.words)

    def require(self, runs: Iterable[RunSpec]) -> None:
        """Refuse the beginning of an id that none of these runs has."""
        ids = [run.run_id for run in runs]
        for word in self.words:
            if _RUN_PREFIX.fullmatch(word) and not any(run_id.startswith(word) for run_id in ids):
                raise SpecError(
                    f"--keep {word}: no run of this sweep begins like that; the "
                    "first one "
                    f"is {ids[0]}"
                )

    @property
    def best(self) -> bool:
        return "best" in self.words

    def snapshot_steps(self, run: RunSpec) -> list[int]:
        """Before the last evaluation, whose weights are the run's own."""
        return evenly(run.train.evaluation_steps()[:-1], self.snapshots)


@dataclass(frozen=True)
class Kept:
    """What a file of weights says about itself."""

    run_id: str
    cell: str
    step: int
    score: float
    test_loss: float
    why: Literal["best", "asked"]  # only what is kept as the best makes room for a better one

    @property
    def rank(self) -> tuple[float, float, tuple[int, ...]]:
        """Larger is better; no two runs are alike."""
        return self.score, -self.test_loss, tuple(-ord(letter) for letter in self.run_id)


class Keeper:
    """Keeps weights as runs are looked at and end; one worker's view of one folder."""

    def __init__(self, folder: Path, policy: Policy):
        self.folder, self.policy = folder / FOLDER, policy
        self._best: dict[str, Kept] = {}  # by cell, among finished runs
        self._written: dict[str, Kept] = {}  # runs whose end is not stored yet

    def look(self, population: Population, event: Looked) -> None:
        """Before the event is stored: write what may be needed of it."""
        ended = [end.run for end in event.ends if end.run.run_id in event.evaluations]
        gone = {end.run.run_id for end in event.ends}
        for run in self._chosen(ended, event.evaluations):
            about = self._about(run, event.evaluations[run.run_id])
            write(self.folder / f"{run.run_id}{SUFFIX}", population.weights(run.run_id), about)
            self._written[run.run_id] = about
        for run in population.members if self.policy.snapshots else ():
            found = event.evaluations.get(run.run_id)
            wanted = run.run_id not in gone and (self.policy.best or self.policy.asks_for(run))
            if wanted and found and found.step in self.policy.snapshot_steps(run):
                path = self.folder / run.run_id / f"{found.step}{SUFFIX}"
                write(path, population.weights(run.run_id), self._about(run, found))

    def settle(self, run_ids: Iterable[str]) -> None:
        """After the ends of these runs are stored: remove what they have beaten, and their own
        snapshots if they lost.
        """
        for run_id in run_ids:
            kept = self._written.pop(run_id, None)
            if kept is None:
                _remove(self.folder, run_id)
                continue
            before = self._best.get(kept.cell)
            if before is None or kept.rank > before.rank:
                self._best[kept.cell] = kept
                if before is not None and before.why == "best" and before.run_id != run_id:
                    _remove(self.folder, before.run_id)

    def tidy(self, store: Store) -> None:
        """Learn what is kept of finished runs, and remove what is not the best: left by a kill, or
        by another worker.
        """
        if not self.folder.is_dir():
            return
        statuses = {row.run_id: row.status for row in store.rows()}
        for place in (self.folder, *(path for path in self.folder.iterdir() if path.is_dir())):
            sweep_orphans(place)
        kept = {
            about.run_id: about
            for about in catalogue(self.folder)
            if statuses.get(about.run_id) == "done"
        }
        self._best = {}
        for about in sorted(kept.values(), key=lambda about: about.rank):
            self._best[about.cell] = about
        winners = {about.run_id for about in self._best.values()}
        for about in kept.values():
            if about.why == "best" and about.run_id not in winners:
                _remove(self.folder, about.run_id)
        for path in self.folder.iterdir():
            if path.is_dir() and statuses.get(path.name) in FINISHED and path.name not in kept:
                _remove(self.folder, path.name)

    def _chosen(
        self, ended: Sequence[RunSpec], evaluations: Mapping[str, Evaluation]
    ) -> list[RunSpec]:
        """Those asked for, and of each cell the best if it beats what is kept."""
        asked = [run for run in ended if self.policy.asks_for(run)]
        by_cell: dict[str, RunSpec] = {}
        for run in (
            sorted(ended, key=lambda run: self._about(run, evaluations[run.run_id]).rank)
            if self.policy.best
            else ()
        ):
            about = self._about(run, evaluations[run.run_id])
            if about.cell not in self._best or about.rank > self._best[about.cell].rank:
                by_cell[about.cell] = run
        return asked + [run for run in by_cell.values() if run not in asked]

    def _about(self, run: RunSpec, found: Evaluation) -> Kept:
        why: Literal["best", "asked"] = "asked" if self.policy.asks_for(run) else "best"
        return Kept(
            run.run_id,
            cell_id(run),
            found.step,
            found.score(run.task.score_name),
            found.test_loss,
            why,
        )


def cell_id(run: RunSpec) -> str:
    """Equal for runs that differ in learning rate and seed alone, as in the tables."""
    table = run.model_dump(mode="json")
    del table["train"]["lr"], table["seed"]
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:16]


def evenly(entries: Sequence[int], count: int) -> list[int]:
    """`count` of the entries, evenly spaced, or all of them."""
    if count >= len(entries):
        return list(entries)
    return [entries[(2 * i + 1) * len(entries) // (2 * count)] for i in range(count)]


def write(path: Path, weights: Mapping[str, Tensor], about: Kept) -> None:
    make_folder(path.parent)
    # One entry: safetensors writes several in any order, and equal weights should be equal files.
    metadata = {"recollect": json.dumps({**asdict(about), "sha256": _digest(weights)})}
    write_atomically(path, safetensors.torch.save(dict(weights), metadata))


def read(path: Path) -> tuple[Kept, dict[str, Tensor]]:
    """The weights at `path`, or a StoreError if a bit is not as it was written."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            about, checksum = _header(file.metadata())
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    except (ValueError, TypeError, KeyError, safetensors.SafetensorError) as error:
        raise _damaged(path, repr(error)) from None
    if checksum != _digest(weights):
        raise _damaged(path, "its checksum is wrong")
    return about, weights


def catalogue(folder: Path) -> list[Kept]:
    """What the weights kept under `folder` say about themselves; what is damaged is left out."""
    found = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with (
            contextlib.suppress(
                OSError, ValueError, TypeError, KeyError, safetensors.SafetensorError
            ),
            safetensors.safe_open(path, "pt") as file,
        ):
            found.append(_header(file.metadata())[0])
    return found


def kept_files(folder: Path, run_id: str) -> list[Path]:
    """The files of one run in a folder of results, snapshots by their steps, then the run's own;
    empty if it was not kept.
    """
    final = folder / FOLDER / f"{run_id}{SUFFIX}"
    if not final.exists():
        return []
    snapshots = (folder / FOLDER / run_id).glob(f"*{SUFFIX}")
    return [*sorted(snapshots, key=lambda path: int(path.stem)), final]


def _header(metadata: Mapping[str, str]) -> tuple[Kept, str]:
    """What a file says about itself, and the checksum of its tensors."""
    table = json.loads(metadata["recollect"])
    checksum = str(table.pop("sha256"))
    return Kept(**table), checksum


def _remove(folder: Path, run_id: str) -> None:
    """Snapshots first: as long as there is a file of the run's own, what is left can be told."""
    own = folder / run_id
    with contextlib.suppress(
        OSError
    ):  # another worker may be removing the same; what stays is left to the next `tidy`
        for path in own.iterdir() if own.is_dir() else ():
            path.unlink(missing_ok=True)
        if own.is_dir():
            own.rmdir()
        (folder / f"{run_id}{SUFFIX}").unlink(missing_ok=True)


def _digest(weights: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _damaged(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{path}: damaged or foreign ({why})\nremove it; `recollect "
        "inspect` "
        "then trains that run once more"
    )
