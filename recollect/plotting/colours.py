"""The only table of colours: a mixer has one colour, marker and dash pattern in every picture.

The models of the study have the seven colours of Okabe and Ito that show on white, and a dark red
and an indigo for the remaining two: simulated for the three kinds of colour blindness, no two of
these nine come closer than Okabe and Ito's own. The other mixers have colours that a reader with
normal sight can tell apart, close to those of their family; markers and dashes tell all mixers
apart without colour. A mixer that is not in the table gets a colour computed from its name, with a
hue that the models of the study do not use: greens brighter than Hyena's, and blue to magenta.

This file does not import matplotlib, because the page takes its colours from it too.
"""

import colorsys
import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

Dashes = tuple[float, ...]  # lengths drawn and skipped in turn, in line widths; (): solid

# For lines that are not mixers: the heads of a model, ways to search.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "D", "^", "v", "P", "h", "p", "<", ">", "d")  # as matplotlib calls them
DASHES: tuple[Dashes, ...] = (
    (),
    (5, 1.5),
    (6, 1.5, 1, 1.5),
    (1, 1),
    (3, 1, 1, 1, 1, 1),
    (9, 2),
    (3, 1),
    (9, 1.5, 1, 1.5),
    (2, 2),
    (6, 1.5, 3, 1.5),
)


@dataclass(frozen=True)
class LineStyle:
    """How one line is drawn."""

    colour: str
    marker: str
    dashes: Dashes

    @property
    def stroke(self) -> str | tuple[int, Dashes]:
        """The dashes in the form that matplotlib expects."""
        return (0, self.dashes) if self.dashes else "-"


MIXER_STYLES: dict[str, LineStyle] = {
    name: LineStyle(colour, marker, DASHES[dashes])
    for name, colour, marker, dashes in (
        # attention: blue
        ("attention", "#0072B2", "o", 0),
        ("sliding_window", "#004455", "o", 5),
        # linear attention: pink and violet
        ("based", "#CC79A7", "^", 3),
        ("based_hybrid", "#AA3377", "p", 9),
        ("linear_attention", "#8877EE", "^", 0),
        ("retnet", "#EE00CC", "^", 1),
        ("gla", "#9900FF", "^", 6),
        # delta rule: black and indigo
        ("delta_net", "#000000", "h", 6),
        ("gated_delta_net", "#4B2A8C", ">", 8),
        # state space: red and orange
        ("mamba", "#D55E00", "s", 1),
        ("mamba2", "#7A1500", "<", 7),
        ("s6", "#BB0000", "s", 3),
        ("h3", "#E69F00", "v", 4),
        # convolution: green
        ("hyena", "#009E73", "D", 2),
        ("base_conv", "#006644", "D", 0),
        # recurrent
        ("rwkv4", "#56B4E9", "P", 5),
        ("mlstm", "#1100DD", "P", 0),
        ("min_gru", "#99BB99", "d", 0),
        ("gru", "#777755", "d", 1),
        ("lstm", "#8811AA", "d", 3),
    )
}
# Shades for further variants of a mixer: the fraction of white (above 0) or black (below 0) mixed
# into its colour.
SHADES = (0.0, 0.3, -0.4, 0.55, -0.6)

# Text and guides in every figure.
INK, FAINT = "#333333", "#8a8a8a"
NO_RESULT = "#c4c4c4"  # colour of the hatching
# The page's colours: text, borders, states, and what lies behind and around its plots.
PAGE = {
    "ink": "#1f2328",
    "soft": "#5b636d",
    "faint": FAINT,
    "line": "#e1e4e8",
    "edge": "#c5cad1",
    "grid": "#eceef1",
    "wash": "#f6f7f9",
    "missing": "#eeeeee",
    "paper": "#ffffff",
    "good": "#00785a",
    "warn": "#a84800",
    "key": PALETTE[0],
}
SCORE_SCALE = ("#f4f8fb", "#cfe3f0", "#9cc7e0", "#5fa4cb", "#0072b2")  # its order shows in grey
_VIRIDIS = (
    *("#440154", "#482878", "#3e4a89", "#31688e", "#26828e"),
    *("#1f9e89", "#35b779", "#6dcd59", "#b4de2c", "#fde725"),
)
RATE_SCALE = _VIRIDIS[:-1]  # without its palest end, which would not show on white
# The same for a dark page.
DARK_PAGE = {
    "ink": "#e6e9ed",
    "soft": "#a3abb5",
    "faint": "#7d8590",
    "line": "#31373e",
    "edge": "#4a525c",
    "grid": "#262b31",
    "wash": "#1e2227",
    "missing": "#24292f",
    "paper": "#15181c",
    "good": "#3fbf94",
    "warn": "#f0954a",
    "key": "#56B4E9",
}
DARK_SCORE_SCALE = ("#1b2630", "#1d4258", "#24658c", "#2f8bc0", "#7cc4ee")
DARK_RATE_SCALE = _VIRIDIS[3:]
LEAST_CONTRAST = 4.0  # of a line against the page behind it, by WCAG's definition


def mixer_style(mixer: str) -> LineStyle:
    """Return a mixer's style; without an entry in the table, a fixed one made from its name."""
    return MIXER_STYLES.get(mixer) or _style_from_name(mixer)


def line_styles(shown: Iterable[tuple[str, str]]) -> dict[str, LineStyle]:
    """Return the style of each label of a picture, given the label and the mixer of each cell in
    it.

    The label that most cells of a mixer have (the first such label in case of a tie) gets the
    mixer's own style; the others get a shade of its colour with a free marker and dash pattern.
    """
    cells = Counter(shown)
    variants = Counter[str]()
    chosen: dict[str, LineStyle] = {}
    taken: set[tuple[str, Dashes]] = set()
    numbered = [
        (label, mixer, _count(variants, mixer)) for (label, mixer), _ in cells.most_common()
    ]
    for label, mixer, variant in sorted(numbered, key=lambda entry: entry[2] > 0):
        style = _free_style(mixer_style(mixer), variant, taken)
        taken.add((style.marker, style.dashes))
        chosen[label] = style
    return {label: chosen[label] for label, _ in cells}


def series_style(index: int) -> LineStyle:
    """Return the style of the index-th of several lines that are not mixers."""
    return LineStyle(PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)], DASHES[0])


def shade(colour: str, amount: float) -> str:
    """Return a colour mixed with a fraction of white, or of black if `amount` is below 0."""
    end = 255 if amount > 0 else 0
    parts = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(part + (end - part) * abs(amount)):02X}" for part in parts)


def on_dark(colour: str) -> str:
    """Return the colour with just enough white to show on the dark page; black becomes ink."""
    if colour.upper() == "#000000":
        return DARK_PAGE["ink"]
    for step in range(11):
        lighter = shade(colour, step / 10)
        if contrast(lighter, DARK_PAGE["paper"]) >= LEAST_CONTRAST:
            break
    return lighter


def contrast(one: str, other: str) -> float:
    """Return WCAG 2's ratio of relative luminances: 1 for equal colours, 21 for black on white."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _count(variants: Counter[str], mixer: str) -> int:
    variants[mixer] += 1
    return variants[mixer] - 1


def _free_style(own: LineStyle, variant: int, taken: set[tuple[str, Dashes]]) -> LineStyle:
    """Return the style of a mixer's variant: the first free marker and dashes, from its own on."""
    colour = shade(own.colour, SHADES[variant % len(SHADES)]) if variant else own.colour
    marker, dashes = MARKERS.index(own.marker), DASHES.index(own.dashes)
    # The numbers of markers and of dash patterns have no common divisor, so all pairs are tried.
    for turn in range(variant, variant + len(MARKERS) * len(DASHES)):
        marks = MARKERS[(marker + turn) % len(MARKERS)], DASHES[(dashes + turn) % len(DASHES)]
        if marks not in taken:
            return LineStyle(colour, *marks)
    return LineStyle(colour, own.marker, own.dashes)  # more lines than a reader can tell apart


def _style_from_name(name: str) -> LineStyle:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    turn = 150 * int.from_bytes(digest[:2]) / 65_536  # degrees
    hls = (75 + turn, 0.4, 0.9) if turn < 65 else (165 + turn, 0.5, 0.8)
    rgb = colorsys.hls_to_rgb(hls[0] / 360, *hls[1:])
    colour = "#" + "".join(f"{round(255 * part):02X}" for part in rgb)
    return LineStyle(colour, MARKERS[digest[2] % len(MARKERS)], DASHES[digest[3] % len(DASHES)])
