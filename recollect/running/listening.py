"""A listener whose errors cannot make runs fail."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from recollect.errors import Stopped
from recollect.running.events import Event

_FAILED = 1  # the code that stops training; never an exit code


class GuardedListener:
    """Passes events on until the listener raises.

    An error of the listener must not make a run fail. So training is asked to stop, which makes it
    save, and the error is raised when this context ends.
    """

    def __init__(self, listen: Callable[[Event], None], stop: Callable[[], int]):
        self._listen, self._stop = listen, stop
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._error is not None and (error is None or isinstance(error, Stopped)):
            raise self._error from None

    def hear(self, event: Event) -> None:
        if self._error is None:
            try:
                self._listen(event)
            except Exception as error:
                self._error = error

    def stop(self) -> int:
        """The code to stop training with, or 0. Training calls this between steps."""
        return self._stop() or (_FAILED if self._error else 0)
