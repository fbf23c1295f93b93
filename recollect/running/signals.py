"""Signals that ask the process to end: the first one stops it after a checkpoint, a second one from
the keyboard stops it at once.

One interrupt may arrive twice within milliseconds: `timeout --signal=INT` sends it to the command
and to its group, and a wrapper may forward a signal that the group has already received. So a
second interrupt counts only if it comes at least SECOND_AFTER_S after the first signal.
"""

import os
import signal
import time
from types import FrameType
from typing import Any, Self

# Batch systems send USR2 before they preempt a job; a terminal sends HUP when it closes.
_EXIT_CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGUSR2": 143, "SIGHUP": 129}
SECOND_AFTER_S = 1.0


class Interrupts:
    """Makes the process remember the exit code that these signals ask for, instead of dying.

    It takes effect when it is created. As a context manager it restores the old handlers on exit.
    """

    def __init__(self) -> None:
        self._code = 0
        self._since = 0.0  # time of the first signal
        self._before: dict[int, Any] = {}
        for name in _EXIT_CODES:
            number = getattr(signal, name, None)  # not every platform has all of them
            # Under nohup the process keeps running when its terminal closes.
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
            # Second request: do not wait for a step or a save; the last checkpoint remains valid.
            os._exit(130)

    def exit_code(self) -> int:
        """The exit code of the first signal, 0 if none has arrived."""
        return self._code


def never() -> int:
    """The stop function that never asks for a stop."""
    return 0
