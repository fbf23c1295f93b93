"""Where a cell stands among the others: its task, width and depth, by which a reader chooses, and
the label of its line.

A label is the mixer and whatever else tells cells of that mixer apart once task, width and depth
are known. What only follows from those three, such as a batch that shrinks as rows grow longer,
goes unsaid.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recollect.analysis.cells import Cell
from recollect.analysis.settings import MIXER, canonical, cell_settings, value_text

TASK, WIDTH, DEPTH = "task.", "model.width", "model.depth"
SAID_OF_A_TASK = (
    "task.name",
    "task.length",
    "task.pairs",
)  # always; other keys only where they tell tasks apart


@dataclass(frozen=True)
class Place:
    """The coordinates of one cell, as text."""

    task: str
    width: str
    depth: str
    label: str


def find_places(cells: Sequence[Cell]) -> list[Place]:
    """One place per cell, in the same order; no two are equal."""
    settings = [cell_settings(cell.rows[0].spec) for cell in cells]
    tasks = _task_names(settings)
    coordinates = [
        (task, value_text(own.get(WIDTH)), value_text(own.get(DEPTH)))
        for task, own in zip(tasks, settings, strict=True)
    ]
    by_mixer: dict[str, list[int]] = {}
    for index, cell in enumerate(cells):
        by_mixer.setdefault(cell.mixer, []).append(index)
    labels = [""] * len(cells)
    for mixer, own in by_mixer.items():
        variants = _variants(
            [settings[index] for index in own], [coordinates[index] for index in own]
        )
        for index, variant in zip(own, variants, strict=True):
            labels[index] = f"{mixer}, {variant}" if variant else mixer
    return [Place(*place, label) for place, label in zip(coordinates, labels, strict=True)]


def in_order(values: Sequence[str]) -> list[str]:
    """Distinct texts, numbers among them in ascending order, others as they came."""
    unique = list(dict.fromkeys(values))
    numbers = {text: found for text in unique if (found := number(text)) is not None}
    return sorted(unique, key=numbers.__getitem__) if len(numbers) == len(unique) else unique


def number(text: str) -> float | None:
    """The number a text stands for, if it is one."""
    return float(text) if text.isascii() and text.replace(".", "", 1).isdigit() else None


def _task_names(settings: Sequence[dict[str, Any]]) -> list[str]:
    own = [{key: value for key, value in flat.items() if key.startswith(TASK)} for flat in settings]
    said = [key for key in SAID_OF_A_TASK if any(key in flat for flat in own)]
    start = [tuple(canonical(flat.get(key)) for key in said) for flat in own]
    return _texts(own, said + _telling(own, start, said))


def _variants(settings: Sequence[dict[str, Any]], places: Sequence[tuple[str, ...]]) -> list[str]:
    own = [
        {key: value for key, value in flat.items() if not key.startswith(TASK)} for flat in settings
    ]
    return _texts(own, _telling(own, places, [WIDTH, DEPTH, MIXER]))


def _telling(
    settings: Sequence[dict[str, Any]], start: Sequence[tuple[str, ...]], known: Sequence[str]
) -> list[str]:
    """The keys, beyond those known, that are needed to tell all settings apart."""
    groups = list(start)
    kept: list[str] = []
    options = sorted(
        {key for flat in settings for key in flat} - set(known),
        key=lambda key: (not key.startswith("model."), key),
    )
    for key in options:
        refined = [
            (*group, canonical(flat.get(key))) for group, flat in zip(groups, settings, strict=True)
        ]
        if len(set(refined)) > len(set(groups)):
            groups, kept = refined, [*kept, key]
    return kept


def _texts(settings: Sequence[dict[str, Any]], keys: Sequence[str]) -> list[str]:
    """The values of the keys in words; written out in full where rounding would make two of them
    look alike.
    """
    distinct = {canonical([flat.get(key) for key in keys]) for flat in settings}
    short = [_text(flat, keys, value_text) for flat in settings]
    return (
        short
        if len(set(short)) == len(distinct)
        else [_text(flat, keys, canonical) for flat in settings]
    )


def _text(flat: dict[str, Any], keys: Sequence[str], word: Any) -> str:
    parts = [(key.split(".")[-1].replace("_", " "), word(flat[key])) for key in keys if key in flat]
    return ", ".join(text if name == "name" else f"{name} {text}" for name, text in parts)
