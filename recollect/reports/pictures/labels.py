"""What lines are called in a picture.

A label is the mixer and what tells its variants apart. Where that is longer than a legend has room
for, the values that most variants of the mixer have go unsaid, and the small print says them once:
cut off, many labels would read alike.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.analysis.naming import Told, join_name
from recollect.plotting.coordinates import Coordinates
from recollect.plotting.text import LONGEST_NAME, mixer_title


@dataclass(frozen=True)
class Labels:
    """Of places, in their order."""

    texts: tuple[str, ...]
    unsaid: tuple[tuple[str, str], ...] = ()  # mixers, each with the values that go unsaid


def label_places(places: Sequence[Coordinates]) -> Labels:
    """Two places have one label only if they are one variant of one mixer."""
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
    """By key the text that most variants have, the first of equally many. A key that a variant does
    not have is said of the others: nothing else would tell them from it.
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
