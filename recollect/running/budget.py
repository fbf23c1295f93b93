"""A time budget: the minutes requested and the deadline that follows from them."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from recollect.errors import SpecError

SPENT = -1  # the code that stops training when the budget is spent; never an exit code


@dataclass(frozen=True)
class Budget:
    minutes: float
    deadline: float  # on `clock`, which all processes of a machine share
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def start(cls, minutes: float | None) -> Self | None:
        """Start a budget now, so that loading torch and planning count. None means no limit."""
        if minutes is None:
            return None
        if not isinstance(minutes, int | float) or not 0 < minutes < math.inf:
            raise SpecError(
                f"--budget {minutes!r}: must be a number of minutes above 0; for example "
                "--budget 10"
            )
        return cls(minutes, time.monotonic() + 60 * minutes)

    @property
    def left_s(self) -> float:
        return self.deadline - self.clock()

    def stop(self, asked: Callable[[], int]) -> Callable[[], int]:
        """Return a stop function that stops when `asked` does or when the budget is spent."""
        return lambda: asked() or (SPENT if self.left_s <= 0 else 0)
