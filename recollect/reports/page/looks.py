"""Colours that a colour-blind reader tells apart, markers for a grey print, and names as one short
line: for every picture.
"""

from dataclasses import dataclass

PALETTE = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)  # Okabe and Ito's, yellow left out
MARKERS = ("o", "s", "D", "^", "v", "P", "h")
DASHES = ("-", "--", "-.", ":")
MAX_LABEL = 48


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


def plain(text: str, limit: int = MAX_LABEL) -> str:
    """A name as one short printable line."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
