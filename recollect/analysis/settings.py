"""What a set of specifications has in common and what differs: the names of cells and the
description of a sweep.

Specifications arrive as nested dicts, possibly of plugins, so nothing here knows a key beyond the
few it prefers to mention.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.analysis.wording import rate_text

WITHIN_A_CELL = ("train.lr", "seed")  # what the runs of one cell differ in
MIXER = "model.mixer.name"
MIXER_OPTIONS = "model.mixer."
# A name mentions these before any other key that tells the same cells apart.
TELLING = ("task.name", "task.length", "task.pairs", "model.width", "model.depth")
SECTIONS = ("task", "model", "train")


@dataclass(frozen=True)
class Fact:
    """One line of a description: what it is about, and what holds."""

    topic: str
    text: str


def flatten(spec: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"task": {"length": 64}} as {"task.length": 64}; lists and empty tables stay values."""
    flat: dict[str, Any] = {}
    for key, value in spec.items():
        if isinstance(value, dict) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def cell_settings(spec: dict[str, Any]) -> dict[str, Any]:
    """The flat settings all runs of a cell share."""
    return {key: value for key, value in flatten(spec).items() if key not in WITHIN_A_CELL}


def name_cells(cells: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """(mixer, setting) for the flat settings of each cell, e.g. ("mamba", "width 64"); the shortest
    that tells all apart.

    A key is mentioned only if it separates cells that the keys before it do not, so what follows
    from the mixer or from the length goes unsaid.
    """
    mixers = [str(cell.get(MIXER, "model")) for cell in cells]
    groups: list[tuple[str, ...]] = [(mixer,) for mixer in mixers]
    kept: list[str] = []
    for key in sorted({key for cell in cells for key in cell} - {MIXER}, key=_telling):
        refined = [
            (*group, canonical(cell.get(key))) for group, cell in zip(groups, cells, strict=True)
        ]
        if len(set(refined)) > len(set(groups)):
            groups, kept = refined, [*kept, key]
    # An option that only tells the cells of another mixer apart goes unsaid.
    values: dict[tuple[str, str], set[str]] = {}
    for mixer, cell in zip(mixers, cells, strict=True):
        for key in kept:
            values.setdefault((mixer, key), set()).add(canonical(cell.get(key)))
    told = [
        [key for key in kept if not key.startswith(MIXER_OPTIONS) or len(values[mixer, key]) > 1]
        for mixer in mixers
    ]
    named = list(zip(mixers, told, cells, strict=True))
    names = [(mixer, _setting(keys, cell, value_text)) for mixer, keys, cell in named]
    if len(set(names)) == len(names):
        return names
    # Values that look alike when rounded are written out.
    return [(mixer, _setting(keys, cell, canonical)) for mixer, keys, cell in named]


def describe(specs: Sequence[dict[str, Any]]) -> list[Fact]:
    """A sweep in plain words: what all runs share, section by section; what goes with each mixer;
    what was varied.
    """
    flats = [flatten(spec) for spec in specs]
    by_mixer: dict[str, list[dict[str, Any]]] = {}
    for flat in flats:
        by_mixer.setdefault(value_text(flat.get(MIXER, "model")), []).append(flat)
    values, own = _values(flats), {mixer: _values(group) for mixer, group in by_mixer.items()}
    # Options of a mixer, and whatever is the same in all its runs but not in those of others, such
    # as its kind of block.
    differing = {key for key, found in values.items() if len(found) > 1}
    constant = {
        key for key in differing if all(len(found.get(key, ())) <= 1 for found in own.values())
    }
    of_mixers = {key for key in values if key.startswith(MIXER_OPTIONS)} | constant
    fixed = {key: found[0] for key, found in values.items() if key not in differing | of_mixers}
    facts = [_section_fact(section, fixed) for section in SECTIONS]
    facts.append(Fact("mixers" if len(own) > 1 else "mixer", ", ".join(own)))
    for mixer, found in own.items():
        options = [key for key in found if key in of_mixers and key != MIXER]
        facts.append(
            Fact(
                mixer,
                "; ".join(_varied(label, found[key]) for key, label in _labels(options).items()),
            )
        )
    varied = sorted(differing - of_mixers, key=_telling)
    facts.append(
        Fact(
            "varied",
            "; ".join(_varied(label, values[key]) for key, label in _labels(varied).items()),
        )
    )
    return [fact for fact in facts if fact.text]


def canonical(value: Any) -> str:
    """Equal for equal values, whatever their order of keys."""
    return json.dumps(value, sort_keys=True, default=str)


def _section_fact(section: str, fixed: dict[str, Any]) -> Fact:
    """The settings of one section that never change."""
    own = [key for key in fixed if key.startswith(f"{section}.")]
    # Seeds and other keys outside the three sections belong to how a run was made.
    rest = [key for key in fixed if section == "train" and key.split(".")[0] not in SECTIONS]
    texts = [
        _worded(key.removeprefix(f"{section}."), value_text(fixed[key])) for key in [*own, *rest]
    ]
    return Fact({"train": "recipe"}.get(section, section), ", ".join(texts))


def _values(flats: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Every key with its distinct values, numbers in ascending order."""
    found: dict[str, dict[str, Any]] = {}
    for flat in flats:
        for key, value in flat.items():
            found.setdefault(key, {}).setdefault(canonical(value), value)
    return {key: _ordered(list(found[key].values())) for key in sorted(found, key=_telling)}


def _ordered(values: list[Any]) -> list[Any]:
    return sorted(values) if all(isinstance(value, int | float) for value in values) else values


def _telling(key: str) -> tuple[int, int, str]:
    """Sorts what tells most first, then section by section."""
    rank = TELLING.index(key) if key in TELLING else len(TELLING)
    section = key.split(".")[0]
    return rank, SECTIONS.index(section) if section in SECTIONS else len(SECTIONS), key


def _labels(keys: Sequence[str]) -> dict[str, str]:
    """The last part of a dotted key, or the whole of it where two keys end alike."""
    ends = Counter(key.split(".")[-1] for key in dict.fromkeys(keys))
    return {key: key.split(".")[-1] if ends[key.split(".")[-1]] == 1 else key for key in keys}


def _setting(keys: Sequence[str], cell: dict[str, Any], word: Callable[[Any], str]) -> str:
    return ", ".join(
        _worded(label, word(cell[key])) for key, label in _labels(keys).items() if key in cell
    )


def _worded(label: str, text: str) -> str:
    return text if label.split(".")[-1] == "name" else f"{_spaced(label)} {text}"


def value_text(value: Any) -> str:
    """A setting's value as a reader would write it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.6g}" if value == 0 or 0.1 <= abs(value) < 1000 else rate_text(value)
    if isinstance(value, list | tuple):
        return "/".join(value_text(entry) for entry in value) or "none"
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        options = ", ".join(
            _worded(key, value_text(inner)) for key, inner in value.items() if key != "name"
        )
        return f"{value['name']} ({options})" if options else value["name"]
    if isinstance(value, dict):
        return canonical(value)
    return "none" if value is None else str(value)


def _varied(label: str, values: list[Any]) -> str:
    label = "learning rate" if label == "lr" else _spaced(label)
    if len(values) <= 6:
        return f"{label} {', '.join(value_text(value) for value in values)}"
    return f"{label}: {len(values)} values from {value_text(values[0])} to {value_text(values[-1])}"


def _spaced(label: str) -> str:
    return label.replace("_", " ").replace(".", " ")
