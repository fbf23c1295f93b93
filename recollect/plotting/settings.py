"""matplotlib's settings for all figures: modest text, few lines.

Figures are made with matplotlib's objects, without pyplot: they are registered nowhere and need no
window system.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from recollect.plotting.colours import FAINT, INK

DOTTED = (0, (1, 1.5))  # the level of chance
SPARSELY_DOTTED = (0, (1, 5))  # the score that positions alone give
PRINT_DPI, SCREEN_DPI = 200, 150
_TIME = "SOURCE_DATE_EPOCH"

_BOTH: dict[Any, Any] = {
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,
}
SCREEN: dict[Any, Any] = {
    **_BOTH,
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.labelsize": 9.5,
    "legend.fontsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "svg.fonttype": "none",  # text stays text: small files, searchable, in the reader's own font
}
PRINT: dict[Any, Any] = {
    **_BOTH,
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.7,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,  # whole outlines embedded: journals refuse Type 3
    "svg.fonttype": "path",  # looks the same in every viewer
}
# Without these, matplotlib writes its version and the time of day.
_NO_METADATA = {
    "png": {"Software": None},
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}


@contextmanager
def print_style() -> Iterator[None]:
    """Apply matplotlib's settings for print within the context."""
    with matplotlib.rc_context(PRINT):
        yield


@contextmanager
def screen_style() -> Iterator[None]:
    """Apply matplotlib's settings for a screen within the context."""
    with matplotlib.rc_context(SCREEN):
        yield


def to_bytes(
    figure: Figure, form: str, dpi: int = PRINT_DPI, settings: dict[Any, Any] = PRINT
) -> bytes:
    """Return the figure as the content of a png, svg or pdf file; equal for equal figures."""
    out = BytesIO()
    with (
        matplotlib.rc_context({**settings, "svg.hashsalt": "recollect"}),
        warnings.catch_warnings(),
        _no_time_of_day(),
    ):
        # A name may contain letters that matplotlib's font lacks; boxes are better than no figure.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(out, format=form, dpi=dpi, metadata=_NO_METADATA[form])
    return out.getvalue()


@contextmanager
def _no_time_of_day() -> Iterator[None]:
    """Fix the time that matplotlib writes into the fonts of a PDF: it is the time at which they
    were subset, unless this variable names another one.
    """
    is_given = _TIME in os.environ
    os.environ.setdefault(_TIME, "0")
    try:
        yield
    finally:
        if not is_given:
            del os.environ[_TIME]
