"""Read untrusted TOML: text that cannot be a specification is refused before it is parsed."""

import re
import tomllib
from pathlib import Path
from typing import Any

from recollect.errors import SpecError

MAX_FILE_BYTES = 1_000_000
MAX_DOTS = 2_000
_NUMBER = re.compile(r"(?<![\w.])\d[\d_]*\.\d[\w+-]*(?![\w.])")
_BYTE_ORDER_MARK = "\ufeff"  # some editors write one in front


def read_text(path: Path) -> str:
    """Return the text of a specification file."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)  # limited, because a device may never end
        if len(content) > MAX_FILE_BYTES:
            raise SpecError(
                f"{path}: more than {MAX_FILE_BYTES:,} bytes; a specification has at most that many"
            )
        return content.decode("utf-8").removeprefix(_BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        raise SpecError(
            f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8 text"
        ) from None
    except OSError as error:
        raise SpecError(
            f"{path}: cannot be read ({error.strerror}); give the path of a TOML file"
        ) from None


def load_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text, or raise ValueError.

    A text that would keep the parser busy for minutes is refused before parsing.
    """
    # The parser's time grows with the square of the number of parts of a key such as a.b.c. Dots
    # inside numbers are harmless.
    if _NUMBER.sub("", text).count(".") > MAX_DOTS:
        raise ValueError(f"more than {MAX_DOTS:,} dots outside of numbers")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply; a specification has at most a few levels") from None
