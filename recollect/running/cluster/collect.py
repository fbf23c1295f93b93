"""The collector: builds one results database from all spools.

It keeps only what is in the spools, so it may die, start over or run twice. The database is built
on a local disk and published as a whole: a reader of the shared folder finds the old file or the
new one, and no machine ever writes SQLite there.

If several attempts at a run ended with the same numbers, the first one counts. If they ended with
different numbers, training was not deterministic: none of them goes into the database, all stay in
their spools, and the run is reported until the user decides which one counts (`settle`).

Runs are in memory only from their first point to their end. So memory does not grow with the sweep,
except for one entry per pack.
"""

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote, unquote

from recollect.errors import RecollectError, StoreError
from recollect.rows import WITH_RESULT, Evaluation
from recollect.running.cluster.plan import Plan, is_planned, read_plan
from recollect.running.cluster.spool import Attempt, SpoolReader, attempts, checkpoint_folder
from recollect.store import PlannedRun, Result, Store
from recollect.store.database import FILE
from recollect.store.durable import copy_atomically
from recollect.store.ownership import is_dead, this_process

BATCH = 4_000  # rows of a transaction: runs and points of their curves
LEASE_S = 3600.0
FOLLOW_EVERY_S, PUBLISH_SHARE = 10.0, 0.02  # publishing takes at most this share of the time
_SCRATCH = "recollect-collect-"  # prefix of folders on the local disk; the owner's name follows
_META_READ = "collected"  # metadata key: plan and number of records in a database
Settle = Literal["first", "last"]


@dataclass(frozen=True)
class Conflict:
    """Attempts at one run that ended with different numbers."""

    run_id: str
    pack: int
    attempts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PackState:
    """The state of one pack, according to its spools."""

    index: int
    runs: int
    done: int  # with a result
    failed: int
    attempts: int
    host: str = ""  # of the last attempt
    step: int = -1  # the highest step that the last attempt reached
    ended: str = ""  # why the last attempt ended; empty: it trains, or was killed

    @property
    def is_complete(self) -> bool:
        return self.done + self.failed == self.runs


@dataclass(frozen=True)
class Collected:
    """The state of a sweep after a look at its spools."""

    packs: tuple[PackState, ...]
    conflicts: tuple[Conflict, ...]
    problems: tuple[str, ...]
    new: int  # runs that this look added

    @property
    def is_complete(self) -> bool:
        return all(pack.is_complete for pack in self.packs)


@dataclass(frozen=True, slots=True)
class _End:
    """How one attempt at a run ended."""

    attempt: str
    status: str
    numbers: str  # digest


@dataclass
class _Pack:
    """A pack that has an attempt and from which more records may still come."""

    index: int
    run_ids: frozenset[str]
    readers: dict[str, SpoolReader] = field(default_factory=dict)  # by attempt, in order
    ends: dict[str, list[_End]] = field(default_factory=dict)  # by run
    taken: dict[str, str] = field(default_factory=dict)  # by run: the attempt in the store


class Collector:
    """Collects the spools of one plan into a private database on the local disk."""

    def __init__(self, plan: Plan, settle: Settle | None = None):
        self.plan, self._settle = plan, settle
        _sweep_dead()
        owner = quote(this_process(), safe="")
        self._scratch = tempfile.TemporaryDirectory(prefix=f"{_SCRATCH}{owner}.")
        self._problems: dict[str, None] = {}
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()
        self._scratch.cleanup()

    def collect(self) -> Collected:
        """Read all new records and return the state of the sweep."""
        new = self._take_all()
        while new is None:  # a store cannot remove a stored result, so it is built again
            self._store.close()
            self._begin()
            new = self._take_all()
        packs = tuple(self._states[index] for index in range(len(self.plan.packs)))
        return Collected(packs, tuple(self._conflicts.values()), tuple(self._problems), new)

    def follow(self, wait: Callable[[float], bool]) -> Iterator[Collected]:
        """Collect, publish and sweep until every run has ended.

        `wait` is called with the seconds until the next look. It waits that long and returns
        whether to go on.
        """
        published = -1
        while True:
            found, started = self.collect(), time.monotonic()
            if self._records > published:
                self.publish()
                published = self._records
            self.sweep()
            pause = max(FOLLOW_EVERY_S, (time.monotonic() - started) / PUBLISH_SHARE)
            yield found
            if found.is_complete or not wait(pause):
                return

    def publish(self, folder: Path | None = None) -> Path:
        """Copy the current database into the shared folder, or into `folder`.

        It does not replace the database of a collector that has read more records: of two
        collectors at once, the slower one may publish last.
        """
        target, copy = (folder or self.plan.folder) / FILE, Path(self._scratch.name) / "published"
        self._store.set_meta(_META_READ, json.dumps([self.plan.plan_id, self._records]))
        self._store.copy_to(copy)
        if _records_read(target.parent, self.plan) <= self._records:
            copy_atomically(copy, target)
        copy.unlink()
        return target

    def sweep(self) -> None:
        """Remove the checkpoints of complete packs, which no attempt will use."""
        for state in self._states.values():
            if state.is_complete:
                folder = checkpoint_folder(self.plan.folder, state.index)
                shutil.rmtree(folder, ignore_errors=True)

    # ---- reading spools ----

    def _begin(self) -> None:
        """Create a database with all planned runs and no results."""
        self._store = Store.create(Path(tempfile.mkdtemp(dir=self._scratch.name)))
        self._store.keep_for_itself()
        self._open: dict[int, _Pack | None] = {}  # None: no attempt has begun
        self._states: dict[int, PackState] = {}
        self._conflicts: dict[str, Conflict] = {}
        self._records = 0
        batch = list[PlannedRun]()
        for index in range(len(self.plan.packs)):
            runs = self.plan.read_pack(index)
            batch += runs
            self._open[index] = None
            self._states[index] = PackState(index, len(runs), 0, 0, 0)
            if len(batch) >= BATCH or index == len(self.plan.packs) - 1:
                self._store.plan(batch, self.plan.name, self.plan.source)
                batch = []

    def _take_all(self) -> int | None:
        """Store all new results and return their number.

        Returns None if a result that is already stored must not be there.
        """
        new, rows, batch = 0, 0, list[tuple[Result, Sequence[Evaluation]]]()
        for index in list(self._open):
            found = attempts(self.plan.folder, index)
            pack = self._open[index]
            if pack is None and found:
                pack = self._open[index] = self._begin_pack(index)
            if pack is None:
                continue
            if self._update(pack, found):
                chosen = self._choose(pack)
                if chosen is None:
                    return None
                batch += chosen
                rows += sum(1 + len(points) for _, points in chosen)
            self._close_if_over(pack)
            if rows >= BATCH:
                new += self._put(batch)
                rows, batch = 0, []
        return new + self._put(batch)

    def _begin_pack(self, index: int) -> _Pack:
        return _Pack(index, frozenset(run.run_id for run in self.plan.read_pack(index)))

    def _update(self, pack: _Pack, found: Sequence[Attempt]) -> bool:
        """Read the new records of a pack; return whether a run has ended since the last look."""
        ended = False
        for attempt in found:
            reader = pack.readers.get(attempt.name)
            if reader is None:
                reader = SpoolReader(self.plan.folder, pack.index, attempt)
                pack.readers[attempt.name] = reader
            content, before = reader.content, reader.content.records
            try:
                changed = reader.update()
            except StoreError as error:
                self._problems[str(error)] = None
                continue
            self._records += content.records - before
            for kind, text in content.notes:
                self._store.note(kind, f"pack {pack.index}: {text}")
            content.notes.clear()
            for run_id in changed & content.results.keys() & pack.run_ids:
                result = content.results[run_id]
                numbers = _digest(result, content.curves.get(run_id, {}))
                end = _End(attempt.name, result.status, numbers)
                pack.ends.setdefault(run_id, []).append(end)
                ended = True
        self._states[pack.index] = _state(pack)
        return ended

    def _choose(self, pack: _Pack) -> list[tuple[Result, Sequence[Evaluation]]] | None:
        """Choose the results to store; None if the store holds one that must not be there."""
        chosen = list[tuple[Result, Sequence[Evaluation]]]()
        for run_id, ends in pack.ends.items():
            # A run that failed on one node may have a result from another.
            good = [end for end in ends if end.status in WITH_RESULT] or ends
            differ = len({end.numbers for end in good}) > 1 and good[0].status in WITH_RESULT
            if differ and self._settle is None:
                names = tuple(end.attempt for end in good)
                self._conflicts[run_id] = Conflict(run_id, pack.index, names)
            attempt = good[-1 if self._settle == "last" else 0].attempt
            in_conflict = run_id in self._conflicts
            if run_id in pack.taken:
                if in_conflict or pack.taken[run_id] != attempt:
                    return None
            elif not in_conflict:
                content = pack.readers[attempt].content
                curve = content.curves.get(run_id, {})
                points = [curve[step] for step in sorted(curve)]
                chosen.append((content.results[run_id], points))
                pack.taken[run_id] = attempt
        for reader in pack.readers.values():
            reader.forget(pack.taken)
        return chosen

    def _put(self, batch: list[tuple[Result, Sequence[Evaluation]]]) -> int:
        if batch:
            claims = self._store.claim([r.run_id for r, _ in batch], this_process(), LEASE_S)
            points = [(r.run_id, point) for r, curve in batch for point in curve]
            self._store.record(claims, points)
            self._store.finish(replace(r, attempt=claims[r.run_id]) for r, _ in batch)
        return len(batch)

    def _close_if_over(self, pack: _Pack) -> None:
        """Stop reading a pack once all its runs are stored and all its attempts have ended."""
        over = all(reader.content.ended for reader in pack.readers.values())
        if over and pack.taken.keys() == pack.run_ids:
            del self._open[pack.index]


def collect_once(plan: Plan, settle: Settle | None = None) -> Collected:
    """Collect, publish and sweep once."""
    with Collector(plan, settle) as collector:
        return next(collector.follow(lambda _: False))


def collect_planned(folders: Sequence[Path]) -> list[Path]:
    """Bring the databases of folders planned for many machines up to date; return all folders."""
    for folder in filter(is_planned, folders):
        collect_once(read_plan(folder))
    return list(folders)


def _sweep_dead() -> None:
    """Remove the scratch folders of dead collectors from this disk."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        owner = unquote(folder.name.removeprefix(_SCRATCH).rpartition(".")[0])
        if owner and is_dead(owner):
            shutil.rmtree(folder, ignore_errors=True)


def _records_read(folder: Path, plan: Plan) -> int:
    """The number of records in the published database; -1 if there is none of this plan."""
    try:
        with Store.open(folder, read_only=True) as store:
            plan_id, records = json.loads(store.meta(_META_READ) or "[null, -1]")
    except (RecollectError, ValueError, TypeError):
        return -1
    return int(records) if plan_id == plan.plan_id else -1


def _state(pack: _Pack) -> PackState:
    ends = pack.ends.values()
    good = sum(any(end.status in WITH_RESULT for end in found) for found in ends)
    last = list(pack.readers.values())[-1].content if pack.readers else None
    return PackState(
        pack.index,
        len(pack.run_ids),
        good,
        len(ends) - good,
        len(pack.readers),
        str(last.about.get("host", "")) if last else "",
        last.furthest if last else -1,
        last.ended if last else "",
    )


def _digest(result: Result, curve: dict[int, Evaluation]) -> str:
    """A digest of an attempt's numbers, independent of when and where they were computed."""
    numbers = [
        *(result.status, result.steps, result.stopped_early, result.diverged_step),
        *(result.parameters, result.state_size),
        *(vars(curve[step]) for step in sorted(curve)),
    ]
    return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]
