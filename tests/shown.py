"""What a terminal shows, as text."""

import io

from rich.console import Console, RenderableType


def rendered(shown: RenderableType, width: int = 100) -> str:
    console = Console(force_terminal=True, record=True, width=width, file=io.StringIO())
    console.print(shown)
    return console.export_text()
