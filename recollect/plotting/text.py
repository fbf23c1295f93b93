"""Text for pictures and tables: names from outside as one printable line without special
characters.

matplotlib reads TeX between dollar signs and hides labels that begin with an underscore; the
functions here prevent both. matplotlib itself is not imported, because the page shortens its names
here too.
"""

import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.text import Text

LONGEST_NAME, LONGEST_TITLE, LONGEST_LINE = 48, 96, 160
NAME_LETTER = 0.062  # inches
SCORE_NAMES = {"exact": "exact match", "accuracy": "accuracy"}
# Mixer names as in their papers; any other mixer is shown by its own name.
MIXER_TITLES = {
    "attention": "Attention",
    "base_conv": "Based (its conv layer)",
    "based": "Based",
    "based_hybrid": "Based (hybrid)",
    "delta_net": "DeltaNet",
    "gated_delta_net": "Gated DeltaNet",
    "gla": "GLA",
    "gru": "GRU",
    "h3": "H3",
    "hyena": "Hyena",
    "linear_attention": "Linear attention",
    "lstm": "LSTM",
    "mamba": "Mamba",
    "mamba2": "Mamba2",
    "min_gru": "minGRU",
    "mlstm": "mLSTM",
    "retnet": "RetNet",
    "rwkv4": "RWKV",
    "s6": "S6 + MLP",
    "sliding_window": "Sliding window",
}


def mixer_title(mixer: str) -> str:
    """Return a mixer's name for a picture."""
    return MIXER_TITLES.get(mixer, mixer)


def printable(text: str) -> str:
    """Replace characters that cannot be printed by blanks."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def one_line(text: str) -> str:
    return " ".join(printable(text).split())


def markdown_text(text: str) -> str:
    """Escape a text so that Markdown renders it literally."""
    entities = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", entities)


def plain(text: str, limit: int = LONGEST_NAME) -> str:
    """Return a name as one short printable line."""
    text = one_line(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def write(label: "Text", text: str, limit: int = LONGEST_NAME) -> None:
    """Put a name into a figure literally."""
    label.set_parse_math(False)
    label.set_text(plain(text, limit))


def write_wrapped(label: "Text", text: str, inches: float) -> None:
    """Put a name into a figure, broken into lines of at most so many inches."""
    label.set_parse_math(False)
    label.set_text("\n".join(wrapped(plain(text, LONGEST_TITLE), int(inches / NAME_LETTER))))


def wrapped(text: str, letters: int) -> list[str]:
    """Break a text into lines of at most so many letters (at least twelve). Break after a comma or
    a colon, and inside a part of the list only if that part is longer than a line.
    """
    letters = max(12, letters)
    parts = [
        part.replace(" ", "\N{NO-BREAK SPACE}") if len(part) <= letters else part
        for part in re.split(r"(?<=[,:]) ", text)
    ]
    lines = textwrap.wrap(" ".join(parts), letters)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
