"""From a name and rows to a file: a picture as PNG, SVG or PDF, a table also as Markdown or LaTeX.

Same rows, same bytes.
"""

import warnings
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from recollect.analysis import BANDS
from recollect.errors import SpecError
from recollect.reports.paper.figures.catalogue import FIGURES, TABLES
from recollect.reports.paper.figures.places import Curves
from recollect.reports.paper.figures.sheet import STYLE
from recollect.rows import RunRow
from recollect.spec.base import shorten, suggest
from recollect.store.durable import write_atomically

DOTS_PER_INCH = 200
# matplotlib would write its version and the time of day.
_NO_METADATA = {
    "png": {"Software": None},
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}
PICTURES = (".png", ".svg", ".pdf")
TEXTS = (".md", ".tex")


def write_figure(
    name: str,
    rows: Sequence[RunRow],
    curves: Curves,
    output: Path | None = None,
    band: str = "min-max",
    dpi: int = DOTS_PER_INCH,
) -> Path:
    """Draw the figure or table `name` into `output` (NAME.png, or NAME.md for a table, if not
    given); returns where it is.
    """
    if name not in FIGURES and name not in TABLES:
        raise SpecError(
            f"{shorten(name)}: no figure of that name; {suggest(name, [*FIGURES, *TABLES])}"
        )
    if band not in BANDS:
        raise SpecError(f"--band {shorten(band)}: {suggest(band, BANDS)}")
    target = output or Path(f"{name}.png" if name in FIGURES else f"{name}.md")
    known = PICTURES if name in FIGURES else PICTURES + TEXTS
    suffix = target.suffix.lower()
    if suffix not in known:
        raise SpecError(
            f"-o {shorten(target.name)}: the file's name must "
            "end in "
            f"{', '.join(known[:-1])} or {known[-1]}"
        )
    if name in FIGURES:
        data = to_bytes(FIGURES[name](rows, curves, band), suffix[1:], dpi)
    else:
        table = TABLES[name](rows, curves, band)
        data = (
            table.markdown().encode()
            if suffix == ".md"
            else table.latex().encode()
            if suffix == ".tex"
            else b""
        )
        data = data or to_bytes(table.figure(), suffix[1:], dpi)
    write_atomically(target, data)
    return target


def to_bytes(figure: Figure, form: str, dpi: int = DOTS_PER_INCH) -> bytes:
    """The figure as the content of a file; equal for equal figures."""
    out = BytesIO()
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "recollect"}), warnings.catch_warnings():
        # A name may hold letters that matplotlib's own font lacks; boxes are better than no figure.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(out, format=form, dpi=dpi, metadata=_NO_METADATA[form])
    return out.getvalue()
