"""The labels of lines in a picture.

A label consists of the mixer and the settings that distinguish its variants. If it is too long for
a legend, it omits the values that most variants of the mixer have, and the small print names these
once. Truncated labels would often be identical.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.analysis.naming import Told, join_name
from recollect.plotting.coordinates import Coordinates
from recollect.plotting.text import LONGEST_NAME, mixer_title


@dataclass(frozen=True)
class Labels:
    """The labels of places, in the order of the places."""

    texts: tuple[str, ...]
    unsaid: tuple[tuple[str, str], ...] = ()  # (mixer, values that its labels leave out)


def label_places(places: Sequence[Coordinates]) -> Labels:
    """Label the places. Two places share a label only if they are the same variant of a mixer."""
    variants: dict[str, dict[Told, None]] = {}
    for place in places:
        variants.setdefault(place.mixer, {})[place.settings] = None
    usual = {
        mixer: _usual(list(own)) if _is_long(mixer, list(own)) else {}
        for mixer, own in variants.items()
    }
    return Labels(
        tuple(_label(place.mixer, place.settings, usual[place.mixer]) for place in places),
        tuple((mixer_title(mixer), ", ".join(own.values())) for mixer, own in usual.items() if own),
    )


def _is_long(mixer: str, variants: Sequence[Told]) -> bool:
    return any(len(_label(mixer, told, {})) > LONGEST_NAME for told in variants)


def _usual(variants: Sequence[Told]) -> dict[str, str]:
    """By key: the text that most variants have, the first in case of a tie.

    A key that some variant lacks is left out, so that the labels of the other variants name it:
    nothing else would distinguish them from that variant.
    """
    counts: dict[str, Counter[str]] = {}
    for told in variants:
        for key, text in told:
            counts.setdefault(key, Counter())[text] += 1
    return {
        key: own.most_common(1)[0][0] for key, own in counts.items() if own.total() == len(variants)
    }


def _label(mixer: str, told: Told, usual: dict[str, str]) -> str:
    said = [text for key, text in told if usual.get(key) != text]
    return join_name(mixer_title(mixer), ", ".join(said))
