"""Coordinates of a cell in a picture: its task, width and depth, which choose its panel, and the
label of its line.

A label is the mixer and the settings that tell cells of that mixer apart once task, width and depth
are known (analysis/naming.py has the rule). Settings that follow from those three, such as a batch
that shrinks as rows grow longer, are left out; an option of the mixer is left out only if it grows
with one of them, as heads grow with the width. Lines in two panels have the same label only if they
show the same model.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.analysis.cells import Cell
from recollect.analysis.mixer_options import PARTS
from recollect.analysis.naming import (
    Told,
    join_name,
    named_keys,
    settings_texts,
    settings_told,
    telling_keys,
    told_settings,
)
from recollect.analysis.settings import DEPTH, MIXER, WIDTH, canonical
from recollect.analysis.wording import value_text

TASK = "task."
# Always part of a task's name; other keys only where they tell tasks apart.
TASK_KEYS = ("task.name", "task.length", "task.pairs")


@dataclass(frozen=True)
class Coordinates:
    """A cell's coordinates, as text."""

    task: str
    width: str
    depth: str
    mixer: str
    settings: Told  # what else distinguishes it from cells of the same mixer; mostly empty

    @property
    def variant(self) -> str:
        return ", ".join(text for _, text in self.settings)

    @property
    def label(self) -> str:
        return join_name(self.mixer, self.variant)


def find_coordinates(cells: Sequence[Cell], unsaid: Collection[str] = ()) -> list[Coordinates]:
    """Return the coordinates of each cell, in the same order. Two are equal only if the cells
    differ in nothing but the flat keys `unsaid`.
    """
    settings = told_settings([cell.rows[0].spec for cell in cells], unsaid)
    places = [
        (task, value_text(own.get(WIDTH)), value_text(own.get(DEPTH)))
        for task, own in zip(_task_names(settings), settings, strict=True)
    ]
    by_mixer: dict[str, list[int]] = {}
    for index, cell in enumerate(cells):
        by_mixer.setdefault(cell.mixer, []).append(index)
    variants: list[Told] = [()] * len(cells)
    for own in by_mixer.values():
        found = _variants([settings[index] for index in own], [places[index] for index in own])
        for index, variant in zip(own, found, strict=True):
            variants[index] = variant
    return [
        Coordinates(*place, cell.mixer, variant)
        for place, cell, variant in zip(places, cells, variants, strict=True)
    ]


def in_order(values: Sequence[str]) -> list[str]:
    """Return the distinct texts; sorted if all are numbers, else in their order."""
    unique = list(dict.fromkeys(values))
    numbers = {text: found for text in unique if (found := number(text)) is not None}
    return sorted(unique, key=numbers.__getitem__) if len(numbers) == len(unique) else unique


def number(text: str) -> float | None:
    """Return the number that a text stands for, or None."""
    return float(text) if text.isascii() and text.replace(".", "", 1).isdigit() else None


def _task_names(settings: Sequence[dict[str, Any]]) -> list[str]:
    own = [{key: value for key, value in flat.items() if key.startswith(TASK)} for flat in settings]
    said = [key for key in TASK_KEYS if any(key in flat for flat in own)]
    known = [tuple(canonical(flat.get(key)) for key in said) for flat in own]
    return settings_texts(own, said + telling_keys(own, known, _other_keys(own, said)))


def _variants(settings: Sequence[dict[str, Any]], places: Sequence[tuple[str, ...]]) -> list[Told]:
    of_tasks = [key for flat in settings for key in flat if key.startswith(TASK)]
    keys = _other_keys(settings, [WIDTH, DEPTH, MIXER, *of_tasks])
    return settings_told(settings, named_keys(settings, places, keys))


def _other_keys(settings: Sequence[dict[str, Any]], known: Sequence[str]) -> list[str]:
    """Return the keys that are not in `known`: first those of a model's parts, then the model's
    others, then the rest.
    """
    keys = {key for flat in settings for key in flat} - set(known)
    return sorted(keys, key=lambda key: (key not in PARTS, not key.startswith("model."), key))
