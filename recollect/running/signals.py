"""Signals that ask for an end: the first one stops after a checkpoint,
a second one from the keyboard at once.
"""

import os
import signal
from types import FrameType
from typing import Any, Self

# USR2 is what batch systems send before they preempt a job.
_EXIT_CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGUSR2": 143}


class Interrupts:
    """From its making on, the process no longer dies of these signals but remembers the exit code
    they ask for; as a context manager, until its end.
    """

    def __init__(self) -> None:
        self._code = 0
        self._before: dict[int, Any] = {}
        for name in _EXIT_CODES:
            number = getattr(signal, name, None)  # SIGUSR2 does not exist everywhere
            if number is not None:
                self._before[number] = signal.signal(number, self._remember)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self._code and number == signal.SIGINT:
            # Asked twice: do not wait for a step or a save; the last checkpoint holds.
            os._exit(130)
        self._code = self._code or _EXIT_CODES[signal.Signals(number).name]

    def exit_code(self) -> int:
        """0 until a signal came."""
        return self._code


def never() -> int:
    """Asks for no stop."""
    return 0
