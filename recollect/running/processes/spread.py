"""Assigns runs to processes: every run has a home process, so that each device compiles few shapes.

The runs are put in a row, shape by shape. The row is cut into one piece per process, whose length
is proportional to the speed of the process's device. A shape is cut only where a piece ends, so
with n processes at most n - 1 shapes are compiled twice. A process that has begun all its own runs
takes over waiting runs of others: whole shapes first, half of a shape only when nothing else waits.
Homes affect only the time taken: claims keep processes from training the same run.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate

from recollect.running.processes.devices import DeviceShare
from recollect.spec.run import RunSpec
from recollect.spec.sweep import group_by_shape

# Share of a process's piece. A part of a shape that is smaller does not repay another compilation.
SMALLEST_PIECE = 0.1


def spread_runs(
    runs: Sequence[RunSpec], shares: Sequence[DeviceShare], seconds: Mapping[str, float]
) -> dict[str, int]:
    """Return the number of the home process of each run. `seconds`: of a run, by shape."""
    shapes = group_by_shape(runs)
    total_s = sum(len(shape) * seconds[shape[0].shape_id] for shape in shapes)
    speed = sum(share.speed for share in shares)
    pieces_s = [total_s * share.speed / speed for share in shares]
    cuts = list(_cuts(shapes, seconds, pieces_s))
    row = [run.run_id for shape in shapes for run in shape]
    return {run_id: bisect_right(cuts, place) for place, run_id in enumerate(row)}


def spread_seconds(
    runs: Sequence[RunSpec], shares: Sequence[DeviceShare], seconds: Mapping[str, float]
) -> float:
    """Estimated seconds until the last process ends.

    `seconds`: of a run on the first device alone, by shape. The estimate ignores that cuts make
    packs smaller and that some shapes are compiled twice.
    """
    homes = spread_runs(runs, shares, seconds)
    ends = [0.0] * len(shares)
    for run in runs:
        share = shares[homes[run.run_id]]
        slower = shares[0].speed / share.speed * share.processes
        ends[homes[run.run_id]] += seconds[run.shape_id] * slower
    return max(ends)


def _cuts(
    shapes: Sequence[Sequence[RunSpec]], seconds: Mapping[str, float], pieces_s: Sequence[float]
) -> Iterator[int]:
    """Yield the place in the row where each piece ends, except the last."""
    ends_s = list(accumulate(len(shape) * seconds[shape[0].shape_id] for shape in shapes))
    begins = [0, *accumulate(map(len, shapes))]
    for number, end_s in enumerate(accumulate(pieces_s[:-1])):
        found = min(bisect_right(ends_s, end_s), len(shapes) - 1)
        count, each_s = len(shapes[found]), seconds[shapes[found][0].shape_id]
        before = count - round((ends_s[found] - end_s) / each_s)
        least = SMALLEST_PIECE * min(pieces_s[number : number + 2]) / each_s
        if before < least:
            before = 0
        elif count - before < least:
            before = count
        yield begins[found] + before


class Home:
    """The runs assigned to one process, and how it takes over others.

    `leaves_large`: there is a larger device, so a run that does not fit into memory here is left to
    that device and does not fail.
    """

    def __init__(
        self, number: int = 0, homes: Mapping[str, int] | None = None, leaves_large: bool = False
    ):
        self.is_shared = homes is not None
        self.leaves_large = leaves_large
        self._number, self._homes = number, dict(homes or {})
        self._left: set[str] = set()  # shapes that do not fit
        self._left_runs: set[str] = set()  # runs that another kind of device has begun

    def holds(self, run: RunSpec) -> bool:
        """Whether a run is assigned here; a run planned later is assigned to every process."""
        at_home = self._homes.get(run.run_id, self._number) == self._number
        return at_home and not self._is_left(run)

    def prefer(self, runs: Sequence[RunSpec]) -> list[RunSpec]:
        """Return the runs to train here: those assigned here, or if there are none all that fit."""
        return list(filter(self.holds, runs)) or [run for run in runs if not self._is_left(run)]

    def leave(self, shape_id: str) -> None:
        """Leave a shape that does not fit here to other processes."""
        self._left.add(shape_id)

    def leave_begun(self, run_ids: Collection[str]) -> None:
        """Leave runs that another kind of device has begun to that kind."""
        self._left_runs |= set(run_ids)

    def _is_left(self, run: RunSpec) -> bool:
        return run.shape_id in self._left or run.run_id in self._left_runs

    def take_over(self, waiting: Sequence[RunSpec], compiled: Collection[str]) -> None:
        """Assign some of the runs that wait for other processes to this one.

        Take half of a shape that is already compiled here. If there is none, choose the process
        with the most waiting runs and take its last shape, or half of it if it is the only one.
        """
        queues: dict[int, dict[str, list[RunSpec]]] = {}
        for run in waiting:
            if not self._is_left(run):
                queue = queues.setdefault(self._homes.get(run.run_id, self._number), {})
                queue.setdefault(run.shape_id, []).append(run)
        taken: list[RunSpec] = []
        for queue in queues.values():
            for shape_id, runs in queue.items():
                if shape_id in compiled:
                    taken = taken or _half(runs)
        if queues and not taken:
            longest = max(queues.values(), key=lambda queue: sum(map(len, queue.values())))
            last = list(longest.values())[-1]
            taken = last if len(longest) > 1 else _half(last)
        self._homes |= dict.fromkeys((run.run_id for run in taken), self._number)


def _half(runs: Sequence[RunSpec]) -> list[RunSpec]:
    """The second half, rounded up, so that a single run is taken."""
    return list(runs[len(runs) // 2 :])
