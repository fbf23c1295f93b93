"""The spool of one attempt at a pack: a file for the collector that only one process writes.

A spool is complete by itself: it repeats the points that its attempt inherited. So the curve of a
run comes from one file, the spool of the attempt that ended the run. File names contain a number,
which grows from attempt to attempt of a pack, and a random part. So two attempts never share a
file, even if neither can see the other's.
"""

import json
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recollect.errors import StoreError
from recollect.rows import Evaluation
from recollect.running.cluster.frames import FrameReader, FrameWriter
from recollect.store.durable import make_folder
from recollect.store.records import Result

SUFFIX = ".spool"


def spool_folder(folder: Path, pack: int) -> Path:
    return folder / "spool" / f"{pack:06d}"


def checkpoint_folder(folder: Path, pack: int) -> Path:
    """The checkpoint folder of a pack; each attempt has a subfolder in it."""
    return folder / "checkpoints" / f"{pack:06d}"


@dataclass(frozen=True)
class Attempt:
    """One attempt at a pack. Its name, as in "3-1204_17-5f2c9a", is its number, its job and a
    random part.
    """

    name: str

    @property
    def number(self) -> int:
        return int(self.name.partition("-")[0])

    @staticmethod
    def is_name(name: str) -> bool:
        number, _, rest = name.partition("-")
        return number.isdecimal() and bool(rest)


def attempts(folder: Path, pack: int) -> list[Attempt]:
    """The attempts that have a spool, in order."""
    paths = spool_folder(folder, pack).glob(f"*{SUFFIX}")
    found = [Attempt(path.stem) for path in paths if Attempt.is_name(path.stem)]
    return sorted(found, key=lambda attempt: (attempt.number, attempt.name))


def next_attempt(folder: Path, pack: int, job: str) -> Attempt:
    """Return a new attempt with the next number and a unique name."""
    number = 1 + max((attempt.number for attempt in attempts(folder, pack)), default=0)
    safe = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in job)
    return Attempt(f"{number}-{safe[:40] or 'local'}-{secrets.token_hex(4)}")


class Spool:
    """The spool that the process of one attempt writes."""

    def __init__(
        self,
        folder: Path,
        pack: int,
        attempt: Attempt,
        about: Mapping[str, Any],
        is_synced: bool = True,
    ):
        """`about`: plan_id, host and device of the attempt. `is_synced`: a record is on the disk
        when its method returns; simulations need not wait for that.
        """
        make_folder(spool_folder(folder, pack))
        path = spool_folder(folder, pack) / f"{attempt.name}{SUFFIX}"
        self._writer = FrameWriter(path, is_synced)
        self._sequence = 0
        self._put("begin", {"pack": pack, "attempt": attempt.name, **about})

    def points(self, evaluations: Iterable[tuple[str, Evaluation]]) -> None:
        self._put("points", [(run_id, vars(at)) for run_id, at in evaluations])

    def results(self, results: Iterable[Result]) -> None:
        self._put(
            "results",
            [vars(result) | {"last": result.last and vars(result.last)} for result in results],
        )

    def note(self, kind: str, text: str) -> None:
        self._put("note", [kind, text])

    def trying(self, run_ids: Iterable[str]) -> None:
        """Record that these runs begin to train together."""
        self._put("trying", list(run_ids))

    def saved(self, step: int) -> None:
        """Record that a checkpoint at this step is on the disk."""
        self._put("saved", step)

    def end(self, why: str) -> None:
        """Write the last record, with the reason: complete, stopped, failed or superseded."""
        self._put("end", {"why": why, "records": self._sequence + 1})
        self._writer.close()

    def abandon(self) -> None:
        """Close the file without a last record, as if the process had died."""
        self._writer.close()

    def _put(self, kind: str, content: Any) -> None:
        record = {"sequence": self._sequence, "kind": kind, "content": content}
        self._writer.write(json.dumps(record).encode())
        self._sequence += 1


@dataclass
class SpoolContent:
    """The content of a spool so far."""

    attempt: Attempt
    about: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, dict[int, Evaluation]] = field(default_factory=dict)  # by run, by step
    results: dict[str, Result] = field(default_factory=dict)
    notes: list[tuple[str, str]] = field(default_factory=list)
    tried: tuple[str, ...] = ()  # the runs that began to train together last
    furthest: int = -1  # the highest step that was evaluated or saved
    ended: str = ""  # the reason; empty: the attempt has not ended, or it was killed
    records: int = 0


class SpoolReader:
    """Reads the new records of one spool."""

    def __init__(self, folder: Path, pack: int, attempt: Attempt):
        path = spool_folder(folder, pack) / f"{attempt.name}{SUFFIX}"
        self._frames = FrameReader(path)
        self.content = SpoolContent(attempt)

    def update(self) -> set[str]:
        """Read the new records; return the ids of the runs that they concern."""
        changed: set[str] = set()
        for body in self._frames.new():
            try:
                changed |= self._take(json.loads(body))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise StoreError(
                    f"{self._frames.path}: record {self.content.records} is none of ours "
                    f"({error!r}); was it written by another version?"
                ) from None
            self.content.records += 1
        return changed

    def forget(self, run_ids: Iterable[str]) -> None:
        """Drop the content of collected runs, so that memory does not grow."""
        for run_id in run_ids:
            self.content.curves.pop(run_id, None)
            self.content.results.pop(run_id, None)

    def _take(self, record: dict[str, Any]) -> set[str]:
        content, found = record["content"], self.content
        if record["sequence"] != found.records:
            raise ValueError(f"sequence {record['sequence']}")
        match record["kind"]:
            case "begin":
                found.about = dict(content)
            case "points":
                for run_id, at in content:
                    found.curves.setdefault(run_id, {})[at["step"]] = Evaluation(**at)
                    found.furthest = max(found.furthest, at["step"])
                return {run_id for run_id, _ in content}
            case "results":
                for table in content:
                    last = table["last"]
                    drift = tuple(table.get("drift", ()))
                    known = {"last": last and Evaluation(**last), "drift": drift}
                    result = Result(**{**table, **known})
                    found.results[result.run_id] = result
                    found.furthest = max(found.furthest, result.steps)
                    if result.last:
                        curve = found.curves.setdefault(result.run_id, {})
                        curve[result.last.step] = result.last
                return {table["run_id"] for table in content}
            case "note":
                kind, text = content
                found.notes.append((kind, text))
            case "trying":
                found.tried = tuple(content)
            case "saved":
                found.furthest = max(found.furthest, content)
            case "end":
                found.ended = content["why"]
            case other:
                raise ValueError(f"kind {other!r}")
        return set()


def read_spool(folder: Path, pack: int, attempt: Attempt) -> SpoolContent:
    """Read all complete records of an attempt's spool."""
    reader = SpoolReader(folder, pack, attempt)
    reader.update()
    return reader.content


def job_name() -> str:
    """The name of the scheduler's job that this process belongs to; "local" if there is none."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    if array and task:
        return f"{array}_{task}"
    return os.environ.get("SLURM_JOB_ID") or "local"
