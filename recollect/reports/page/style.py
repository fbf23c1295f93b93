"""How every figure drawn by matplotlib looks: modest text, few lines, names from outside as they
are.

Figures are made through matplotlib's objects alone: without pyplot nothing is registered anywhere
and no window system needed.
"""

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.text import Text

from recollect.analysis import rate_text
from recollect.reports.page.looks import MARKERS as MARKERS
from recollect.reports.page.looks import PALETTE as PALETTE
from recollect.reports.page.looks import LineStyle as LineStyle
from recollect.reports.page.looks import line_style as line_style
from recollect.reports.page.looks import plain as plain

DOTTED = (0, (1, 1.5))  # the level of chance
INK, FAINT = "#333333", "#8a8a8a"

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


def write(label: Text, text: str) -> None:
    """Put a name from outside into a figure: as it is, with no TeX in it and no meaning given to a
    leading underscore.
    """
    label.set_parse_math(False)
    label.set_text(plain(text))


def rate_axis(ax: Axes, low: float, high: float) -> None:
    """A log axis of learning rates from `low` to `high` with a little room, labelled as the tables
    write them.
    """
    ax.set_xscale("log")
    ax.set_xlim(low / 1.25, high * 1.25)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if high / low > 50 else (1, 3)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    shown = [tick for tick in ticks if low / 1.25 <= tick <= high * 1.25] or [low]
    ax.set_xticks(shown, [rate_text(tick) for tick in shown])
    ax.set_xlabel("learning rate")
