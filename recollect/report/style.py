"""How every figure looks: colours that a colour-blind reader tells apart, markers for a grey print, modest text.

Figures are made through matplotlib's objects alone: without pyplot nothing is registered anywhere and no window system needed.
"""

import math
import re
import warnings
from dataclasses import dataclass
from io import StringIO
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from recollect.analysis import rate_text

DOTTED = (0, (1, 1.5))  # the level of chance
INK, FAINT = "#333333", "#8a8a8a"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito's, yellow left out
MARKERS = ("o", "s", "D", "^", "v", "P", "h")
DASHES = ("-", "--", "-.", ":")
MAX_LABEL = 48

SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small files, the reader's own font, searchable
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.labelsize": 9.5,
    "legend.fontsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,
}


@dataclass(frozen=True)
class LineStyle:
    """How one label is drawn, the same in every panel."""

    colour: str
    marker: str
    dash: str


def line_style(index: int) -> LineStyle:
    """The look of the index-th label; dashes change only once the colours are used up."""
    turn, place = divmod(index, len(PALETTE))
    return LineStyle(PALETTE[place], MARKERS[place], DASHES[turn % len(DASHES)])


def plain(text: str) -> str:
    """A name as one short printable line."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"


def write(label: Text, text: str) -> None:
    """Put a name from outside into a figure: as it is, with no TeX in it and no meaning given to a leading underscore."""
    label.set_parse_math(False)
    label.set_text(plain(text))


def rate_axis(ax: Axes, low: float, high: float) -> None:
    """A log axis of learning rates from `low` to `high` with a little room, labelled as the tables write them."""
    ax.set_xscale("log")
    ax.set_xlim(low / 1.25, high * 1.25)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if high / low > 50 else (1, 3)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    shown = [tick for tick in ticks if low / 1.25 <= tick <= high * 1.25] or [low]
    ax.set_xticks(shown, [rate_text(tick) for tick in shown])
    ax.set_xlabel("learning rate")


def to_svg(figure: Figure, salt: str) -> str:
    """The figure as an `<svg>` element for an HTML page: equal for equal figures, with no date and nothing to be fetched."""
    out = StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({**SETTINGS, "svg.hashsalt": salt}), warnings.catch_warnings():
        # The reader's fonts may well have the glyphs of a name that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(out, format="svg", metadata=nothing)
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    # Ids of groups are never referred to and would repeat from figure to figure on one page.
    return re.sub(r'<g id="[^"]*"', "<g", svg).strip()
