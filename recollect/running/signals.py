"""Signals that ask for an end: the first one stops after a checkpoint, a second one from the
keyboard at once.

One interrupt may arrive twice within milliseconds: `timeout --signal=INT` sends it to the command
and to its group, and a wrapper may forward what the group has received already. A second one counts
from SECOND_AFTER_S on.
"""

import os
import signal
import time
from types import FrameType
from typing import Any, Self

# USR2 is what batch systems send before they preempt a job, HUP what a terminal sends that closes.
_EXIT_CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGUSR2": 143, "SIGHUP": 129}
SECOND_AFTER_S = 1.0


class Interrupts:
    """From its making on, the process no longer dies of these signals but remembers the exit code
    they ask for; as a context manager, until its end.
    """

    def __init__(self) -> None:
        self._code = 0
        self._since = 0.0  # when the first one came
        self._before: dict[int, Any] = {}
        for name in _EXIT_CODES:
            number = getattr(signal, name, None)  # some do not exist everywhere
            # Under nohup the end of the terminal is no reason to stop.
            if number is None or (name, signal.getsignal(number)) == ("SIGHUP", signal.SIG_IGN):
                continue
            self._before[number] = signal.signal(number, self._remember)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if not self._code:
            self._code, self._since = _EXIT_CODES[signal.Signals(number).name], time.monotonic()
        elif number == signal.SIGINT and time.monotonic() - self._since >= SECOND_AFTER_S:
            # Asked twice: do not wait for a step or a save; the last checkpoint holds.
            os._exit(130)

    def exit_code(self) -> int:
        """0 until a signal came."""
        return self._code


def never() -> int:
    """Asks for no stop."""
    return 0
