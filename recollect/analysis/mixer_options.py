"""A mixer's options in a name: the usual value goes unsaid, and a part that was put in or taken out
has words of its own, the same in every name, figure and table.

Only what this package knows has usual values. Options of a plug-in are always said: its defaults
are known only where it is loaded, and a name must not depend on that.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from recollect.analysis.settings import MIXER
from recollect.mixers.registry import MIXERS

MIXER_OPTIONS = "model.mixer."
KERNEL, GATE, CONV = (f"{MIXER_OPTIONS}{option}" for option in ("kernel", "gate", "conv"))
PARTS = (KERNEL, GATE, CONV)
WITHOUT, WITH = "without ", "+ "  # how the words of a part begin


@cache
def usual_options(mixer: str) -> dict[str, Any]:
    """The options of a mixer where nothing is said about them, by flat key."""
    kind = MIXERS.get(mixer)
    if kind is None or kind.foreign:
        return {}
    return {
        f"{MIXER_OPTIONS}{name}": field.default
        for name, field in kind.model_fields.items()
        if name != "name"
    }


def is_usual(cell: Mapping[str, Any], key: str) -> bool:
    """Whether an option has its usual value, which a setting that is left out has too."""
    usual = usual_options(str(cell.get(MIXER)))
    return key in usual and (cell.get(key) is None or cell[key] == usual[key])


def part_text(mixer: str, key: str, value: Any) -> str:
    """ "without convolution", "without gate", "+ conv on K"; empty where the value of an option
    neither puts a part in nor takes one out.
    """
    usual = usual_options(mixer).get(key)
    if key == KERNEL and usual and value == 0:
        return f"{WITHOUT}convolution"
    if key == GATE and isinstance(usual, bool) and value is (not usual):
        return f"{WITHOUT}gate" if usual else f"{WITH}gate"
    if key == CONV and usual == "none" and value not in (None, "none"):
        return f"{WITH}conv on {str(value).upper()}"
    return ""


def has_part(cell: Mapping[str, Any], key: str) -> bool:
    """Whether an option of a cell puts a part in or takes one out."""
    return key in PARTS and bool(part_text(str(cell.get(MIXER)), key, cell.get(key)))
