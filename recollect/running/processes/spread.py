"""Which process trains what: every run has a home, so that each device compiles few shapes.

The runs stand in a row, shape by shape, and the row is cut into a piece for each process, as long
as its device is fast. A shape is cut only where a piece ends: with n processes at most n - 1 shapes
are compiled twice. A process that has begun all its own takes over what waits elsewhere, whole
shapes first, and half of one only when nothing else waits. Nothing depends on homes but the time
it takes: claims keep processes apart.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate

from recollect.running.processes.devices import DeviceShare
from recollect.spec.run import RunSpec
from recollect.spec.sweep import group_by_shape

# Of what a process gets: a smaller piece of a shape is not worth compiling it once more.
SMALLEST_PIECE = 0.1


def spread_runs(
    runs: Sequence[RunSpec], shares: Sequence[DeviceShare], seconds: Mapping[str, float]
) -> dict[str, int]:
    """The number of the process that each run is at home in; `seconds`: of a run, by shape."""
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
    """When the last process should end, with so many `seconds` of a run on the first device alone,
    by shape. Packs that a cut makes smaller are not counted, nor is what is compiled twice.
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
    """Where in the row each piece but the last one ends."""
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
    """The runs at home in one process, and how it comes by others.

    `leaves_large`: there is a larger device, so a run that does not fit into memory here has not
    failed.
    """

    def __init__(
        self, number: int = 0, homes: Mapping[str, int] | None = None, leaves_large: bool = False
    ):
        self.is_shared = homes is not None
        self.leaves_large = leaves_large
        self._number, self._homes = number, dict(homes or {})
        self._left: set[str] = set()  # shapes that do not fit
        self._left_runs: set[str] = set()  # that another kind of device has begun

    def holds(self, run: RunSpec) -> bool:
        """Whether a run is at home here; one that was planned since is so everywhere."""
        at_home = self._homes.get(run.run_id, self._number) == self._number
        return at_home and not self._is_left(run)

    def prefer(self, runs: Sequence[RunSpec]) -> list[RunSpec]:
        """Of these the ones to train here: those at home, or without any all that fit."""
        return list(filter(self.holds, runs)) or [run for run in runs if not self._is_left(run)]

    def leave(self, shape_id: str) -> None:
        """This shape does not fit: it is for others."""
        self._left.add(shape_id)

    def leave_begun(self, run_ids: Collection[str]) -> None:
        """Another kind of device has begun these: they are for it."""
        self._left_runs |= set(run_ids)

    def _is_left(self, run: RunSpec) -> bool:
        return run.shape_id in self._left or run.run_id in self._left_runs

    def take_over(self, waiting: Sequence[RunSpec], compiled: Collection[str]) -> None:
        """Make some of the runs that wait elsewhere at home here: half of a shape that is compiled
        already; else of whoever has most waiting the last shape, or half of the only one.
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
    """The later one, rounded up: one run is taken whole."""
    return list(runs[len(runs) // 2 :])
