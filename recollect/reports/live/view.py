"""The view of a training: lines and, if the screen supports it, a live display of its progress."""

from pathlib import Path
from typing import Protocol, Self

import rich.console

from recollect.analysis.wording import count_text
from recollect.errors import command_text
from recollect.reports.live.progress import Progress
from recollect.reports.live.terminal import Terminal
from recollect.running.events import (
    DeviceProgress,
    Event,
    FailedReopened,
    OthersFollow,
    Remark,
    RunEnded,
    SweepPlanned,
    TrainingStarted,
)


class Screen(Protocol):
    """Where a view is shown: a terminal, a file, a notebook."""

    def say(self, line: str) -> None: ...

    def show(self, picture: rich.console.RenderableType) -> bool:
        """Show the picture from now on. Returns False if the screen can show only lines."""

    def refresh(self) -> None:
        """Update the display, because the picture has changed."""

    def close(self) -> None:
        """Show the picture for the last time."""


class TrainingView:
    """A context manager that listens to the events of a training and shows them on a screen."""

    def __init__(
        self,
        folder: Path,
        below: rich.console.RenderableType | None = None,
        screen: Screen | None = None,
    ):
        self.folder, self.below, self.screen = folder, below, screen or Terminal()
        self.ended: set[str] = set()  # ids of the runs that ended while it listened
        self._progress: Progress | None = None
        self._is_live = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress and (done := self._progress.devices.total()):
            self.screen.say(done)
        self.screen.close()

    def hear(self, event: Event) -> None:
        say = self.screen.say
        if isinstance(event, RunEnded):
            self.ended.add(event.run.run_id)
        match event:
            case SweepPlanned():
                known = f", {event.known} known" if event.known else ""
                runs = count_text(event.runs, "run")
                say(f"{event.name}: {runs}, {event.new} new{known} -> {self.folder}")
            case OthersFollow():
                runs = f"{'at most ' * event.is_searched}{count_text(event.runs, 'run')}"
                unplan = command_text("unplan", self.folder, "SWEEP")
                say(f"then {runs} planned here before (`{unplan}` takes back what has not begun)")
            case FailedReopened():
                say(f"{count_text(event.runs, 'failed run')} will be tried again")
            case TrainingStarted():
                self._start(event)
            case Remark() if self._progress is None:
                say(event.text)
            case DeviceProgress() if self._progress:
                self._progress.devices.feed(event)
            case _ if self._progress:
                self._progress.feed(event)
                self.screen.refresh()
                line = self._progress.line(event)
                if line and (not self._is_live or isinstance(event, Remark)):
                    say(line)

    def _start(self, event: TrainingStarted) -> None:
        from recollect.running.planning.cost import operations

        self._progress = Progress(
            event.rows, operations, event.processes, event.step_s, event.likely
        )
        parts = [self._progress, *([self.below] if self.below is not None else [])]
        self._is_live = self.screen.show(rich.console.Group(*parts))
