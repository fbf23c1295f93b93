"""Signals that ask for an end: the first is granted after a checkpoint, a second one of the
keyboard's at once.
"""

import os
import signal
from types import FrameType

_ASKED = {
    "SIGINT": 130,
    "SIGTERM": 143,
    "SIGUSR2": 143,
}  # USR2 is what batch systems send before they preempt a job


class Interrupts:
    """From its making on, the process no longer dies of these signals but remembers the exit code
    they ask for.
    """

    def __init__(self) -> None:
        self._code = 0
        for name in _ASKED:
            number = getattr(signal, name, None)  # SIGUSR2 does not exist everywhere
            if number is not None:
                signal.signal(number, self._remember)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self._code and number == signal.SIGINT:
            os._exit(
                130
            )  # asked twice: do not wait for a step or a save; the last checkpoint holds
        self._code = self._code or _ASKED[signal.Signals(number).name]

    def exit_code(self) -> int:
        """0 until a signal came."""
        return self._code
