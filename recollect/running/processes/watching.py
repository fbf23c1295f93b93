"""The progress of other processes: events derived from changes in a store's rows, and the speed of
each device from the counts that its processes report.
"""

import time
from collections import deque
from collections.abc import Iterable, Sequence

from recollect.analysis import count_text
from recollect.rows import Evaluation, RunRow
from recollect.running.events import DeviceProgress, RunEnded, RunProgress
from recollect.spec.run import RunSpec
from recollect.store import Store
from recollect.store.reading.followed import ChangedRows

WINDOW_S = 20.0


class StoreWatcher:
    """Reports changes in a store."""

    def __init__(self, store: Store):
        self._changed, self._rows = ChangedRows(store), RowWatcher(store.rows())
        self.ended = 0  # runs that ended since the start

    def changes(self) -> list[RunProgress | RunEnded]:
        changed = self._changed.read()
        self.ended += sum(row.is_finished for row in changed)
        return self._rows.changes(changed)


class RowWatcher:
    """Compares given rows with those of the last call."""

    def __init__(self, rows: Iterable[RunRow]):
        self._runs = {row.run_id: RunSpec.parse(row.spec) for row in rows if not row.is_finished}
        self._last: dict[str, RunProgress] = {
            run_id: RunProgress(run, run.train.steps) for run_id, run in self._runs.items()
        }

    def changes(self, rows: Sequence[RunRow]) -> list[RunProgress | RunEnded]:
        """Return the progress of runs that have changed, then the ends of runs that have ended."""
        progress: list[RunProgress] = []
        ended: list[RunEnded] = []
        for row in rows:
            run = self._runs.get(row.run_id)
            if run is None:
                continue
            now = _progress(run, row)
            if now != self._last[row.run_id]:
                self._last[row.run_id] = now
                progress.append(now)
            if row.is_finished:
                del self._runs[row.run_id], self._last[row.run_id]
                ended.append(_end_of(run, row))
        return [*progress, *ended]


class DeviceSpeeds:
    """Run-steps per second of each device, over the last WINDOW_S."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int]]] = {}  # (time, run-steps made by then)
        self._last: dict[str, DeviceProgress] = {}

    def feed(self, event: DeviceProgress) -> None:
        now, seen = time.monotonic(), self._seen.setdefault(event.device, deque())
        seen.append((now, event.run_steps))
        while len(seen) > 2 and seen[1][0] <= now - WINDOW_S:
            seen.popleft()
        self._last[event.device] = event

    def speed(self, device: str) -> float:
        """Run-steps per second of a device; 0 before the first step."""
        (since, before), (now, steps) = self._seen[device][0], self._seen[device][-1]
        return (steps - before) / (now - since) if now > since else 0.0

    def seconds(self, run_steps: int) -> float | None:
        """Seconds for this many run-steps at the current speed of all devices; None at speed 0."""
        together = sum(map(self.speed, self._seen))
        return run_steps / together if together else None

    def now(self) -> str:
        """The speeds as text, if there are several devices to compare; else empty."""
        if len(self._seen) < 2:
            return ""
        each = ", ".join(f"{device} {self.speed(device):,.0f}" for device in self._seen)
        return f"run-steps a second: {each}"

    def total(self) -> str:
        """The work done by each device as text, if there are several; else empty."""
        if len(self._last) < 2:
            return ""
        return "; ".join(
            f"{device}: {count_text(last.ended, 'run')} of {count_text(last.shapes, 'shape')}, "
            f"{last.run_steps:,} run-steps"
            for device, last in self._last.items()
        )


def _progress(run: RunSpec, row: RunRow) -> RunProgress:
    if not row.is_finished:
        return RunProgress(run, run.train.steps - (row.steps or 0), row.score)
    timed = row.wall_s and row.steps
    return RunProgress(
        run, 0, row.score, (row.steps or 0) if timed else 0, (row.wall_s or 0.0) if timed else 0.0
    )


def _end_of(run: RunSpec, row: RunRow) -> RunEnded:
    """The end of a run that another process trained, as its worker would report it."""
    early = f"{row.stopped_early} early" if row.stopped_early else ""
    detail = row.failure or (f"at step {row.diverged_step}" if row.status == "diverged" else early)
    last = None
    if row.accuracy is not None and row.exact is not None and row.status == "done":
        last = Evaluation(
            row.steps or 0,
            *(row.train_loss or 0.0, row.test_loss or 0.0, row.accuracy, row.exact),
            train_score=row.train_score,
        )
    return RunEnded(run, row.status, last, row.steps or 0, detail)
