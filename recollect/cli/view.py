"""What a person sees of a training: lines, and on a terminal a live view of its progress."""

from pathlib import Path
from typing import Self

import rich.console
from rich.live import Live

from recollect.cli.printing import Printable, say
from recollect.cli.progress import Progress
from recollect.errors import printable
from recollect.running.events import (
    Event,
    FailedReopened,
    Remark,
    SweepPlanned,
    TrainingStarted,
)


class TrainingView:
    """A listener, from its entry to its exit."""

    def __init__(self, folder: Path, below: rich.console.RenderableType | None = None):
        self.folder, self.below = folder, below
        self._progress: Progress | None = None
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def hear(self, event: Event) -> None:
        match event:
            case SweepPlanned():
                known = f", {event.known} known" if event.known else ""
                say(f"{event.name}: {event.runs} runs, {event.new} new{known} -> {self.folder}")
            case FailedReopened():
                say(f"{event.runs} failed runs will be tried again")
            case TrainingStarted():
                self._start(event)
            case Remark() if self._progress is None:
                say(event.text)
            case _ if self._progress:
                self._progress.feed(event)
                line = self._progress.line(event)
                if line and not self._live:
                    say(line)
                elif line and self._live and isinstance(event, Remark):
                    self._live.console.print(printable(line), markup=False, highlight=False)

    def _start(self, event: TrainingStarted) -> None:
        from recollect.running.planning.cost import operations

        self._progress = Progress(event.rows, operations, event.processes, event.step_s)
        console = rich.console.Console()
        if console.is_terminal:
            parts = [self._progress, *([self.below] if self.below is not None else [])]
            drawn = Printable(rich.console.Group(*parts))
            self._live = Live(drawn, console=console, refresh_per_second=4)
            self._live.start()
