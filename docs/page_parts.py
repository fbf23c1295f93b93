"""What the generated pages share: wrapped prose, tables, small pictures, where rows come from."""

import io
import os
import textwrap
from pathlib import Path

from PIL import Image

from recollect.plotting.settings import to_bytes

HERE = Path(__file__).parent
MOST_BYTES = 150_000
RESOLUTIONS = (130, 110, 90, 75, 60)  # dots per inch, until a picture is small enough
COLOURS = 224  # fewer would repaint small marks
NONE = "–"  # in a table: nothing to say
WIDTH = 100  # columns of a page, tables and commands excepted


def small_png(figure):
    """A PNG of few colours, at the finest resolution that keeps it small."""
    for resolution in RESOLUTIONS:
        out = io.BytesIO()
        image = Image.open(io.BytesIO(to_bytes(figure, "png", resolution))).convert("RGB")
        image.quantize(COLOURS, dither=Image.Dither.NONE).save(out, "png", optimize=True)
        if out.tell() <= MOST_BYTES:
            break
    return out.getvalue()


def write_png(path, figure):
    """The figure as a small PNG file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(small_png(figure))


def shown(folder):
    """A folder as a reader at the root of the repository would write it."""
    return os.path.relpath(folder, HERE.parent)


def wrapped(text):
    """Lines of prose at most WIDTH columns wide; two blanks at the end of a line break it."""
    lines, is_command = [], False
    for line in text.split("\n"):
        is_command ^= line.startswith("```")
        if line.startswith("|") or is_command or len(line) <= WIDTH:
            lines.append(line)
        else:
            end = line[len(line.rstrip()) :]
            indent = "  " if line.startswith("- ") else ""
            width = WIDTH - len(end)
            options = {"break_long_words": False, "break_on_hyphens": False}
            lines += textwrap.wrap(line, width, subsequent_indent=indent, **options)
            lines[-1] += end
    return "\n".join(lines)


def table(head, lines, numbers=()):
    """A Markdown table; `numbers` are the columns that stand on the right."""
    rules = ["--:" if place in numbers else ":--" for place, _ in enumerate(head)]
    rows = [head, rules, *lines]
    return "\n".join(f"| {' | '.join(_cell(text) for text in row)} |" for row in rows) + "\n"


def _cell(text):
    return " ".join(str(text).split()).replace("|", "\\|")
