"""matplotlib's settings for all figures: modest text, few lines.

Figures are made through matplotlib's objects alone: without pyplot nothing is registered anywhere
and no window system is needed.
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
SPARSELY_DOTTED = (0, (1, 5))  # of what positions alone give away
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
    "svg.fonttype": "none",  # text stays text: small files, the reader's own font, searchable
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
    "svg.fonttype": "path",  # looks the same wherever it is opened
}
# matplotlib would write its version and the time of day.
_NO_METADATA = {
    "png": {"Software": None},
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}


@contextmanager
def print_style() -> Iterator[None]:
    """matplotlib's settings for as long as a figure for print is made."""
    with matplotlib.rc_context(PRINT):
        yield


@contextmanager
def screen_style() -> Iterator[None]:
    """matplotlib's settings for as long as a figure for a screen is made."""
    with matplotlib.rc_context(SCREEN):
        yield


def to_bytes(
    figure: Figure, form: str, dpi: int = PRINT_DPI, settings: dict[Any, Any] = PRINT
) -> bytes:
    """The figure as the content of a png, svg or pdf file; equal for equal figures."""
    out = BytesIO()
    with (
        matplotlib.rc_context({**settings, "svg.hashsalt": "recollect"}),
        warnings.catch_warnings(),
        _no_time_of_day(),
    ):
        # A name may hold letters that matplotlib's own font lacks; boxes are better than no figure.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(out, format=form, dpi=dpi, metadata=_NO_METADATA[form])
    return out.getvalue()


@contextmanager
def _no_time_of_day() -> Iterator[None]:
    """The fonts inside a PDF hold the time at which they were cut to size, unless this variable
    names another one.
    """
    is_given = _TIME in os.environ
    os.environ.setdefault(_TIME, "0")
    try:
        yield
    finally:
        if not is_given:
            del os.environ[_TIME]
