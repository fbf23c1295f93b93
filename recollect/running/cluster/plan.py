"""The plan of a sweep for many machines: written once, read by every task, never changed.

It is a file of frames. The first frame describes the sweep and the position of each pack; each
further frame is a pack. A task reads only the first frame and its own, however large the sweep.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recollect.errors import SpecError, StoreError, command_text
from recollect.running.cluster.frames import HEAD, body_at, frame
from recollect.store.database import FILE as STORE_FILE
from recollect.store.durable import make_folder, write_atomically
from recollect.store.records import PlannedRun

FILE = "plan.recollect"
FORMAT = 1
_LARGEST_HEAD = 1 << 28


@dataclass(frozen=True)
class DraftPack:
    """The runs of one task, before the plan is written."""

    runs: tuple[PlannedRun, ...]
    label: str  # mixer and sizes, for people
    seconds: float  # forecast


@dataclass(frozen=True)
class PackEntry:
    """The description of a pack in the plan's first frame."""

    runs: int
    label: str
    seconds: float
    offset: int  # of its frame, from the end of the first frame
    size: int  # of its frame


@dataclass(frozen=True)
class Plan:
    """The plan of one folder.

    Plans with equal content have an equal `plan_id`, which every spool records.
    """

    folder: Path
    plan_id: str
    name: str  # of the sweep
    source: str  # the text it was planned from
    code: str  # digest of the package that may train it
    versions: Mapping[str, str]  # of libraries, on the machine that planned it
    plugins: tuple[str, ...]  # paths that a task has to load
    packs: tuple[PackEntry, ...]
    first_end: int  # where the packs' frames begin

    @property
    def runs(self) -> int:
        return sum(pack.runs for pack in self.packs)

    @property
    def key(self) -> bytes:
        """The key that seals the checkpoints of every attempt.

        An attempt cannot use the key of its temporary store, since no other attempt knows it.
        """
        return self.plan_id.encode()

    def read_pack(self, index: int) -> tuple[PlannedRun, ...]:
        """The runs of one pack."""
        if not 0 <= index < len(self.packs):
            raise SpecError(
                f"--pack {index}: the plan has packs 0 to {len(self.packs) - 1}; "
                f"`{command_text('status', self.folder)}` lists them"
            )
        entry = self.packs[index]
        with (self.folder / FILE).open("rb") as file:
            file.seek(self.first_end + entry.offset)
            body = body_at(file.read(entry.size), 0)
        if body is None:
            raise _damaged(self.folder, f"pack {index} is not as it was written")
        return tuple(PlannedRun(*run) for run in json.loads(zlib.decompress(body)))


@dataclass(frozen=True)
class DraftPlan:
    """A plan that can be shown or written."""

    plan: Plan
    content: tuple[bytes, ...]

    def write(self) -> Plan:
        """Write the plan into its folder; refuse a folder that already has a plan or a store."""
        folder = self.plan.folder
        refuse_used(folder)
        make_folder(folder)
        write_atomically(folder / FILE, self.content)
        return self.plan


def draft_plan(
    folder: Path,
    packs: Iterable[DraftPack],
    *,
    name: str,
    source: str,
    code: str,
    versions: Mapping[str, str],
    plugins: Iterable[str] = (),
) -> DraftPlan:
    """Draft the plan of these packs for a folder; nothing is written."""
    frames, entries, offset = [], [], 0
    digest = hashlib.sha256(source.encode())
    for pack in packs:
        body = zlib.compress(json.dumps([list(run) for run in pack.runs]).encode())
        frames.append(frame(body))
        digest.update(hashlib.sha256(body).digest())
        size = len(frames[-1])
        entries.append(PackEntry(len(pack.runs), pack.label, pack.seconds, offset, size))
        offset += size
    table: dict[str, Any] = {
        "format": FORMAT,
        "plan_id": digest.hexdigest()[:16],
        "name": name,
        "source": source,
        "code": code,
        "versions": dict(versions),
        "plugins": list(plugins),
        "packs": [asdict(entry) for entry in entries],
    }
    first = frame(zlib.compress(json.dumps(table).encode()))
    return DraftPlan(_plan(folder, table, len(first)), (first, *frames))


def is_planned(folder: Path) -> bool:
    """Whether a folder holds a sweep for many machines."""
    return (folder / FILE).is_file()


def refuse_used(folder: Path) -> None:
    """Refuse to plan into a folder that has a plan or a store."""
    for present in (FILE, STORE_FILE):
        if (folder / present).exists():
            raise SpecError(
                f"{folder}: holds {present} already; give another --out, or "
                f"`{go_on_command(folder)}` for what is left of it"
            )


def go_on_command(folder: Path) -> str:
    """The command that continues training a folder."""
    return command_text("submit" if is_planned(folder) else "resume", folder)


def read_plan(folder: Path) -> Plan:
    """Read the first frame of a folder's plan; the packs themselves are not read."""
    path = folder / FILE
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
            length = int.from_bytes(head[4:8], "big")
            body = body_at(head + file.read(min(length, _LARGEST_HEAD)), 0)
    except FileNotFoundError:
        raise SpecError(
            f"{folder}: no {FILE} in it; `{command_text('submit', 'SPEC', '--out', folder)}` makes "
            "one"
        ) from None
    if body is None:
        raise _damaged(folder, "its first record is not as it was written")
    try:
        first = json.loads(zlib.decompress(body))
        if first["format"] != FORMAT:
            raise StoreError(
                f"{path}: format {first['format']}, this recollect knows {FORMAT}; use the one "
                "that wrote it"
            )
        return _plan(folder, first, HEAD + length)
    except (ValueError, TypeError, KeyError, zlib.error) as error:
        raise _damaged(folder, repr(error)) from None


def _plan(folder: Path, first: dict[str, Any], first_end: int) -> Plan:
    return Plan(
        folder,
        plan_id=first["plan_id"],
        name=first["name"],
        source=first["source"],
        code=first["code"],
        versions=first["versions"],
        plugins=tuple(first["plugins"]),
        packs=tuple(PackEntry(**entry) for entry in first["packs"]),
        first_end=first_end,
    )


def _damaged(folder: Path, why: str) -> StoreError:
    return StoreError(
        f"{folder / FILE}: damaged ({why}); spools are untouched: plan the same sweep in another "
        "folder and move spool/ there"
    )
