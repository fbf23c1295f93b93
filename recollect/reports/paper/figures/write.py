"""Write a figure to a file: a picture as PNG, SVG or PDF, a table also as Markdown or LaTeX.

The same rows give the same bytes.
"""

from collections.abc import Sequence
from pathlib import Path

from recollect.analysis import BANDS, Curves
from recollect.errors import SpecError
from recollect.plotting.settings import PRINT_DPI, to_bytes
from recollect.plotting.sheet import WHOLE, Frame, framed
from recollect.reports.paper.figures.all_figures import (
    FIGURES,
    OWN_FIGURES,
    OWN_TABLES,
    TABLES,
)
from recollect.reports.paper.figures.table import Table
from recollect.rows import RunRow
from recollect.spec.base import shorten, suggest
from recollect.store.durable import write_output

PICTURES = (".png", ".svg", ".pdf")
TEXTS = (".md", ".tex")


def write_figure(
    name: str,
    rows: Sequence[RunRow],
    curves: Curves,
    output: Path | None = None,
    band: str = "min-max",
    dpi: int = PRINT_DPI,
    frame: Frame = WHOLE,
) -> Path:
    """Write the figure or table `name` to `output`; by default NAME.png or, for a table, NAME.md.

    Returns the path of the file.
    """
    drawn, written = FIGURES | OWN_FIGURES, TABLES | OWN_TABLES
    if name not in drawn and name not in written:
        raise SpecError(
            f"{shorten(name)}: no figure of that name; "
            f"{suggest(name, {*drawn, *written}, 'recollect figure --help')}"
        )
    if band not in BANDS:
        raise SpecError(f"--band {shorten(band)}: {suggest(band, BANDS)}")
    target = output or Path(f"{name}.png" if name in drawn else f"{name}.md")
    known = PICTURES + TEXTS if name in written else PICTURES
    suffix = target.suffix.lower()
    if suffix not in known:
        raise SpecError(
            f"-o {shorten(target.name)}: the file's name must end in {', '.join(known[:-1])} or "
            f"{known[-1]}"
        )
    form = suffix[1:]
    if name in drawn and suffix in PICTURES:
        with framed(frame):
            data = to_bytes(drawn[name](rows, curves, band), form, dpi)
    elif frame != WHOLE:
        raise SpecError(f"{name}: a table has no --size, title or caption to leave out")
    else:
        data = _table_bytes(written[name](rows, curves, band), form, dpi)
    write_output(target, data)
    return target


def _table_bytes(table: Table, form: str, dpi: int) -> bytes:
    if form == "md":
        return table.markdown().encode()
    return table.latex().encode() if form == "tex" else to_bytes(table.figure(), form, dpi)
