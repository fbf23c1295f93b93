"""From folders to a file: one of the four pictures, as asked for on the command line."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from recollect.analysis import BANDS, TAU, flatten, select_rows
from recollect.errors import SpecError
from recollect.plotting.settings import PRINT_DPI, to_bytes
from recollect.plotting.sheet import Frame, framed
from recollect.reports.pictures import curves, rates, scaling, windows
from recollect.reports.pictures.look import Look
from recollect.reports.pictures.shown import Shown, Source
from recollect.rows import RunRow
from recollect.spec.base import shorten, suggest
from recollect.spec.overrides import read_value
from recollect.store.durable import write_atomically

KINDS: dict[str, Callable[[Shown, Look], Figure]] = {
    "rates": rates.draw,
    "windows": windows.draw,
    "curves": curves.draw,
    "scaling": scaling.draw,
}
FORMS = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class PictureRequest:
    """Which picture of which rows, and how it is to look."""

    kind: str
    look: Look = field(default_factory=Look)
    frame: Frame = field(default_factory=Frame)
    where: tuple[str, ...] = ()  # KEY=VALUE: only rows with these settings

    def draw(self, *sources: Source) -> Figure:
        """The picture of one source, or of two over each other."""
        conditions = read_where(self.where, [row for source in sources for row in source.rows])
        if self.kind not in KINDS:
            raise SpecError(f"{shorten(self.kind)}: no picture; {suggest(self.kind, KINDS)}")
        if self.look.band not in BANDS:
            raise SpecError(f"--band {shorten(self.look.band)}: {suggest(self.look.band, BANDS)}")
        if not 0 < self.look.tau <= 1:
            raise SpecError(
                f"--tau {self.look.tau:g}: must be above 0 and at most 1; the usual is {TAU:g}"
            )
        chosen = [
            Source(source.name, select_rows(source.rows, conditions), source.curves)
            for source in sources
        ]
        with framed(self.frame):
            return KINDS[self.kind](Shown.of(*chosen), self.look)

    def write(self, *sources: Source, output: Path | None = None) -> Path:
        """Draw into `output`, else KIND.png; returns where it is."""
        target = output or Path(f"{self.kind}.png")
        form = target.suffix.lower()
        if form not in FORMS:
            raise SpecError(
                f"-o {shorten(target.name)}: the file's name must end in .png, .svg or .pdf"
            )
        write_atomically(target, to_bytes(self.draw(*sources), form[1:], PRINT_DPI))
        return target


def read_size(text: str | None) -> tuple[float | None, float | None]:
    """ "7x4" or "7" as inches of width and height."""
    if text is None:
        return None, None
    parts = text.lower().removesuffix("in").split("x")
    try:
        sizes = [float(part) for part in parts]
    except ValueError:
        sizes = []
    if not 1 <= len(sizes) <= 2 or not all(1 <= size <= 60 for size in sizes):
        raise SpecError(
            f"--size {shorten(text)}: give WIDTH or WIDTHxHEIGHT in inches from 1 to 60, for "
            "example 3.4 (a column) or 7x4"
        )
    return sizes[0], sizes[1] if len(sizes) == 2 else None


def read_where(texts: Iterable[str], rows: Sequence[RunRow]) -> dict[str, Any]:
    """KEY=VALUE pairs as conditions on settings; values are written as for --set."""
    found: dict[str, Any] = {}
    known = {key for row in rows for key in flatten(row.spec)}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or key not in known:
            problem = suggest(key, known) if equals else "must be written KEY=VALUE"
            raise SpecError(f"--where {shorten(text)}: {problem}; for example model.width=64")
        found[key] = read_value(value)
    return found
