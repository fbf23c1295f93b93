"""Where a training that is started from Python is shown: on a terminal, below a notebook's cell, or
not at all.
"""

import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recollect.running.events import Event, ignore

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recollect.reports.live.view import Screen

EVERY_S = 0.5  # least seconds between two updates of a notebook's picture
COLUMNS = 110
MOST_LINES = 20  # number of last lines kept above the picture
FRAME = (
    '<pre style="background: none; border: 0; line-height: 1.3; white-space: pre; overflow-x: auto;'
    ' font-family: Menlo, DejaVu Sans Mono, Consolas, monospace">{code}</pre>'
)


@contextlib.contextmanager
def shown(folder: Path, progress: bool | None) -> Iterator[Callable[[Event], None]]:
    """Yield a listener that shows the events it receives. With None they are shown on a terminal
    and in a notebook, where a person is likely to look.
    """
    notebook = in_notebook()
    if progress or (progress is None and (notebook or sys.stdout.isatty())):
        from recollect.reports.live.terminal import Terminal
        from recollect.reports.live.view import TrainingView

        screen: Screen = NotebookScreen() if notebook else Terminal()
        with TrainingView(folder, screen=screen) as view:
            yield view.hear
    else:
        yield ignore


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this code; IPython on a terminal has none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


class NotebookScreen:
    """One output of a cell that is updated in place: lines, and the picture below them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lines: list[str] = []
        self._picture: RenderableType | None = None
        self._output: Any = None  # IPython's handle of the output
        self._drawn_at = -EVERY_S

    def say(self, line: str) -> None:
        self._lines = [*self._lines, line][-MOST_LINES:]
        self._draw()

    def show(self, picture: "RenderableType") -> bool:
        self._picture = picture
        self._draw()
        return True

    def refresh(self) -> None:
        if self._clock() - self._drawn_at >= EVERY_S:
            self._draw()

    def close(self) -> None:
        if self._output is not None:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import HTML, display

        self._drawn_at = self._clock()
        drawn = HTML(self._html())
        if self._output is None:
            self._output = display(drawn, display_id=True)
        else:
            self._output.update(drawn)

    def _html(self) -> str:
        """Return the HTML of what rich draws on a terminal, in colours for light and dark pages."""
        from rich.console import Console, Group
        from rich.text import Text

        from recollect.reports.live.terminal import Printable

        picture = [] if self._picture is None else [self._picture]
        console = Console(
            file=io.StringIO(),
            record=True,
            width=COLUMNS,
            force_terminal=True,
            force_jupyter=False,
            color_system="truecolor",
        )
        console.print(Printable(Group(*map(Text, self._lines), *picture)))
        return console.export_html(inline_styles=True, code_format=FRAME)
