"""A request for one of the four pictures, from sources to a file, as on the command line."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from matplotlib.figure import Figure

from recollect.analysis import BANDS, TAU
from recollect.errors import SpecError
from recollect.plotting.settings import PRINT_DPI, to_bytes
from recollect.plotting.sheet import Frame, framed
from recollect.reports.pictures import curves, rates, scaling, windows
from recollect.reports.pictures.choosing import choose_rows
from recollect.reports.pictures.look import Look
from recollect.reports.pictures.shown import Shown, Source
from recollect.spec.base import shorten, suggest
from recollect.store.durable import write_output

KINDS: dict[str, Callable[[Shown, Look], Figure]] = {
    "rates": rates.draw,
    "windows": windows.draw,
    "curves": curves.draw,
    "scaling": scaling.draw,
}
FORMS = (".png", ".svg", ".pdf")
SHOWN_BY = {
    "band": ("rates", "scaling"),
    "tau": ("rates", "windows", "scaling"),
    "against": ("scaling",),
}


@dataclass(frozen=True)
class PictureRequest:
    """The kind of picture, its options, and the rows to show."""

    kind: str
    look: Look = field(default_factory=Look)
    frame: Frame = field(default_factory=Frame)
    where: tuple[str, ...] = ()  # KEY=VALUE conditions; only rows that meet all are shown

    def draw(self, *sources: Source) -> Figure:
        """Draw the picture of one source, or of two sources in the same axes."""
        if self.kind not in KINDS:
            raise SpecError(f"{shorten(self.kind)}: no picture; {suggest(self.kind, KINDS)}")
        if self.look.band not in BANDS:
            raise SpecError(f"--band {shorten(self.look.band)}: {suggest(self.look.band, BANDS)}")
        if not 0 < self.look.tau <= 1:
            raise SpecError(
                f"--tau {self.look.tau:g}: must be above 0 and at most 1; the usual is {TAU:g}"
            )
        self._refuse_unused()
        chosen = [self._choose(source) for source in sources]
        with framed(self.frame):
            return KINDS[self.kind](Shown.of(*chosen), self.look)

    def _choose(self, source: Source) -> Source:
        """The rows of a source that meet the conditions; at least one of them needs a result."""
        rows = choose_rows(source.rows, self.where)
        asked = " ".join(f"--where {shlex.quote(text)}" for text in self.where)
        if not rows and source.rows:
            raise SpecError(f"{asked}: none of the {len(source.rows)} runs of {source.name} fits")
        if self.where and not any(row.has_result for row in rows):
            raise SpecError(f"{replace(source, rows=rows).no_result},\nor leave out {asked}")
        return replace(source, rows=rows)

    def _refuse_unused(self) -> None:
        """Raise SpecError for an option that has no effect on this kind of picture."""
        for name, kinds in SHOWN_BY.items():
            value = getattr(self.look, name)
            if self.kind not in kinds and value != getattr(Look(), name):
                raise SpecError(
                    f"--{name} {value}: {self.kind} shows no such thing; leave it out, or draw "
                    f"{' or '.join(kinds)}"
                )

    def write(self, *sources: Source, output: Path | None = None) -> Path:
        """Write the picture to `output`, by default KIND.png. Returns the path of the file."""
        target = output or Path(f"{self.kind}.png")
        form = target.suffix.lower()
        if form not in FORMS:
            raise SpecError(
                f"-o {shorten(target.name)}: the file's name must end in .png, .svg or .pdf"
            )
        write_output(target, to_bytes(self.draw(*sources), form[1:], PRINT_DPI))
        return target


def read_size(text: str | None) -> tuple[float | None, float | None]:
    """Parse "7x4" or "7" into width and height in inches."""
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
