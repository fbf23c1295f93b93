"""How many runs the searches of a sweep should still begin, and the run-steps of these runs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass
class _CellLeft:
    """What is left of one cell: runs that have not begun, and how many of them should."""

    shape_id: str
    steps: int  # of one run
    waiting: int = 0
    likely: int | None = None  # None: all of them, no search chooses
    is_needed: bool = True  # whether any of them may still begin


class LikelyRuns:
    """The runs that have not begun, by cell, and the run-steps of those that should begin.

    A search says again after each of its rounds what it should still need (`update`): 0 only if it
    needs no more runs of the cell.
    """

    def __init__(self, likely: Mapping[str, int]):
        self._likely = dict(likely)
        self._cells: dict[str, _CellLeft] = {}
        self._cell_of: dict[str, str] = {}  # of the runs that have not begun

    def plan(self, run_id: str, cell: str, shape_id: str, steps: int) -> None:
        left = self._cells.setdefault(cell, _CellLeft(shape_id, steps))
        left.waiting += 1
        self._expect(left, self._likely.get(cell))
        self._cell_of[run_id] = cell

    def begin(self, run_id: str) -> None:
        """A run has begun, or will never begin. Does nothing if that is known."""
        cell = self._cell_of.pop(run_id, None)
        if cell is not None:
            left = self._cells[cell]
            left.waiting -= 1
            if left.likely:
                left.likely -= 1

    def update(self, likely: Mapping[str, int]) -> None:
        for cell, number in likely.items():
            if cell in self._cells:
                self._expect(self._cells[cell], number)

    def _expect(self, left: _CellLeft, likely: int | None) -> None:
        left.likely, left.is_needed = likely, likely != 0

    def run_steps(self) -> Counter[str]:
        """Run-steps of the runs that should begin, by shape, if none ends early."""
        found: Counter[str] = Counter()
        for left in self._cells.values():
            number = left.waiting if left.likely is None else min(left.likely, left.waiting)
            found[left.shape_id] += number * left.steps
        return found

    def unneeded(self) -> Counter[str]:
        """Run-steps of the runs that no search needs, by shape."""
        found: Counter[str] = Counter()
        for left in self._cells.values():
            if not left.is_needed:
                found[left.shape_id] += left.waiting * left.steps
        return found
