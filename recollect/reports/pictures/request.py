"""A request for one of the four pictures, from sources to a file, as on the command line."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure

from recollect.analysis import BANDS, TAU
from recollect.errors import SpecError
from recollect.plotting.settings import PRINT_DPI, to_bytes
from recollect.plotting.sheet import Frame, framed
from recollect.reports.pictures import curves, rates, scaling, windows
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
    """The kind of picture and its options."""

    kind: str
    look: Look = field(default_factory=Look)
    frame: Frame = field(default_factory=Frame)

    def draw(self, *sources: Source) -> Figure:
        """Draw all rows of one source, or of two sources in the same axes."""
        if self.kind not in KINDS:
            raise SpecError(f"{shorten(self.kind)}: no picture; {suggest(self.kind, KINDS)}")
        if self.look.band not in BANDS:
            raise SpecError(f"--band {shorten(self.look.band)}: {suggest(self.look.band, BANDS)}")
        if not 0 < self.look.tau <= 1:
            raise SpecError(
                f"--tau {self.look.tau:g}: must be above 0 and at most 1; the usual is {TAU:g}"
            )
        self._refuse_unused()
        with framed(self.frame):
            return KINDS[self.kind](Shown.of(*sources), self.look)

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
