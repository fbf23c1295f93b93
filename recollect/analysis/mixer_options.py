"""Mixer options in names: a usual value is left out, and a part that is added or removed has fixed
words, the same in every name, figure and table.

Only mixers of this package have usual values. Options of a plug-in are always mentioned: its
defaults are known only where it is loaded, and a name must not depend on that.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from recollect.analysis.settings import MIXER
from recollect.mixers.registry import MIXERS

MIXER_OPTIONS = "model.mixer."
KERNEL, GATE, CONV = (f"{MIXER_OPTIONS}{option}" for option in ("kernel", "gate", "conv"))
PARTS = (KERNEL, GATE, CONV)
WITHOUT, WITH = "without ", "+ "  # the beginning of a part's words


@cache
def usual_options(mixer: str) -> dict[str, Any]:
    """Return the default options of a mixer, by flat key."""
    kind = MIXERS.get(mixer)
    if kind is None or kind.foreign:
        return {}
    return {
        f"{MIXER_OPTIONS}{name}": field.default
        for name, field in kind.model_fields.items()
        if name != "name"
    }


def is_usual(cell: Mapping[str, Any], key: str) -> bool:
    """Whether an option has its usual value; an option that is not given counts as usual."""
    usual = usual_options(str(cell.get(MIXER)))
    return key in usual and (cell.get(key) is None or cell[key] == usual[key])


def part_text(mixer: str, key: str, value: Any) -> str:
    """Return "without convolution", "without gate" or "+ conv on K"; empty if an option's value
    neither adds nor removes a part.
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
    """Whether an option of a cell adds or removes a part."""
    return key in PARTS and bool(part_text(str(cell.get(MIXER)), key, cell.get(key)))
