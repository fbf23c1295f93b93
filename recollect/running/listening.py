"""A listener that cannot hurt what it listens to."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from recollect.errors import Stopped
from recollect.running.events import Event

_FAILED = 1  # what training is stopped with; never an exit code


class GuardedListener:
    """Passes events on until the listener raises: no run may fail for that. Training is then asked
    to stop, so that it saves, and the error is raised when this context ends.
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
        """Asked between steps."""
        return self._stop() or (_FAILED if self._error else 0)
