"""Checkpoints of populations: one sealed tensor file each, whose header names the members.

A pack keeps its two newest files. A damaged file is renamed `.bad` and never deleted: training
continues from the file before it, and the damaged one stays for inspection.

The seal uses the key of the store (`Database.key`). It proves that members, step, types and all
numbers are as a process of that store wrote them. A file sealed without a key is rejected where the
store has one: anyone can make such a seal, and the run would continue under another version anyway.
"""

import contextlib
import hashlib
import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from recollect.errors import StoreError
from recollect.store.durable import make_folder
from recollect.store.failpoint import failpoint
from recollect.store.tensor_file import Header, TensorFormat, UnreadableError
from recollect.training.environment import UNKNOWN, Environment

KEEP = 2
SUFFIX = ".ckpt"
FORMAT = TensorFormat(
    remedy="; resume from an older checkpoint or from the start", sealed_as="checkpoint"
)


@dataclass(frozen=True)
class Checkpoint:
    """A population between two steps.

    The first axis of every tensor is the member, in the order of `run_ids`.
    """

    run_ids: tuple[str, ...]
    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]  # anything JSON can hold
    environment: Environment = field(default_factory=Environment.here)
    drift: tuple[str, ...] = ()  # changes of the environment up to this step, see RunRow


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint on the disk whose checksum is right."""

    path: Path
    run_ids: tuple[str, ...]
    step: int
    environment: Environment = UNKNOWN
    drift: tuple[str, ...] = ()


@dataclass(frozen=True)
class FoundCheckpoints:
    """The intact checkpoints of a folder, and messages about damaged ones."""

    saved: tuple[SavedCheckpoint, ...]
    problems: tuple[str, ...]

    def of(self, run_id: str) -> list[SavedCheckpoint]:
        """The checkpoints that have this run as a member, highest step first."""
        found = [saved for saved in self.saved if run_id in saved.run_ids]
        return sorted(found, key=lambda saved: -saved.step)

    def newest(self, run_id: str) -> SavedCheckpoint | None:
        """The checkpoint with the highest step that has this run as a member."""
        return next(iter(self.of(run_id)), None)


def save(folder: Path, checkpoint: Checkpoint, key: bytes = b"") -> Path:
    """Write a checkpoint durably, then remove all but the KEEP newest of the same members.

    `key`, here and below, is the key of the store; it is empty for checkpoints without a store.
    """
    make_folder(folder)
    path = folder / f"{_pack(checkpoint.run_ids)}-{checkpoint.step}{SUFFIX}"
    header = {name: value for name, value in vars(checkpoint).items() if name != "tensors"}
    # Flat fields: the format of the file is older than the class Environment.
    header |= vars(header.pop("environment"))
    FORMAT.write(path, header, checkpoint.tensors, key)
    _prune(folder, checkpoint.run_ids, KEEP)
    return path


def forget(folder: Path, run_ids: Sequence[str]) -> None:
    """Remove the checkpoints of exactly these members, which have ended."""
    _prune(folder, run_ids, 0)


def _prune(folder: Path, run_ids: Sequence[str], keep: int) -> None:
    steps = {
        path: path.stem.rpartition("-")[2] for path in folder.glob(f"{_pack(run_ids)}-*{SUFFIX}")
    }
    by_step = sorted(
        (path for path in steps if steps[path].isdecimal()), key=lambda path: int(steps[path])
    )
    for old in by_step[: len(by_step) - keep]:
        old.unlink(missing_ok=True)
        failpoint("checkpoint.pruned")


def _pack(run_ids: Sequence[str]) -> str:
    """Prefix of the file names for these members."""
    return hashlib.sha256("\n".join(run_ids).encode()).hexdigest()[:12]


def load(path: Path, key: bytes = b"") -> Checkpoint:
    """Load the checkpoint at `path` to the CPU; raise StoreError if any bit has changed."""
    try:
        header, tensors = FORMAT.read(path, key)
    except FileNotFoundError:
        raise StoreError(
            f"{path}: no such checkpoint; `recollect resume` finds the newest there is"
        ) from None
    try:
        return Checkpoint(tensors=tensors, **_checked(path, header))
    except TypeError as error:
        raise FORMAT.damaged(path, f"its header is another one: {error}") from None


def find(folder: Path, key: bytes = b"") -> FoundCheckpoints:
    """Return all intact checkpoints of a folder.

    Damaged files are renamed `.bad` and so are reported only once.
    """
    saved, problems = [], []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            header = _checked(path, FORMAT.read_header(path, key))
            about = (header[name] for name in ("run_ids", "step", "environment", "drift"))
            saved.append(SavedCheckpoint(path, *about))
        except FileNotFoundError:
            continue  # another process has removed it since the folder was listed
        except UnreadableError as error:
            problems.append(str(error))
        except StoreError as error:
            problems.append(f"{error}; kept as {set_aside(path).name}")
    return FoundCheckpoints(tuple(saved), tuple(problems))


def discard(folder: Path, finished: Collection[str], key: bytes = b"") -> list[Path]:
    """Remove the checkpoints whose members are all finished; return their paths."""
    done, removed = set(finished), []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        # Unreadable files stay, so that `find` reports them.
        with contextlib.suppress(StoreError, FileNotFoundError):
            if done.issuperset(_checked(path, FORMAT.read_header(path, key))["run_ids"]):
                path.unlink()
                removed.append(path)
    return removed


def _checked(path: Path, header: Header) -> Header:
    """Validate members, step, state and environment of a header; return it with these types."""
    run_ids, step = header.get("run_ids"), header.get("step")
    if (
        type(step) is not int
        or step < 0
        or not isinstance(run_ids, list)
        or not run_ids
        or not all(type(run_id) is str for run_id in run_ids)
        or len(set(run_ids)) < len(run_ids)
    ):
        raise FORMAT.damaged(path, "its header names no members or no step")
    if not isinstance(header.get("state"), dict):
        raise FORMAT.damaged(path, "its header has no state")
    drift = header.get("drift", [])
    if not isinstance(drift, list) or not all(type(line) is str for line in drift):
        raise FORMAT.damaged(path, "its header has no list of what has changed")
    rest = {name: value for name, value in header.items() if name not in Environment.NAMES}
    try:
        environment = Environment.parse({name: header.get(name) for name in Environment.NAMES})
    except ValueError as error:
        raise FORMAT.damaged(path, f"its header has {error}") from None
    return rest | {"run_ids": tuple(run_ids), "drift": tuple(drift), "environment": environment}


def set_aside(path: Path) -> Path:
    """Rename a damaged or unsuitable file to `.bad`, so that it is not read again.

    A file of that name is not overwritten: the new one gets a number.
    """
    names = (path.with_suffix(f".{count}.bad" if count else ".bad") for count in itertools.count())
    bad = next(name for name in names if not name.exists())
    return path.rename(bad)
