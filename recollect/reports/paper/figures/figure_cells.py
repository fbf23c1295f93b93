"""Cells with their coordinates in the study's figures: model, task, size, and the settings that
distinguish cells which share these.

Cells that share all coordinates are never merged; their labels name the settings in which they
differ. Only the evaluation settings do not count as a difference.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recollect.analysis import Cell, Curves
from recollect.analysis.naming import differing_keys, join_name, settings_texts
from recollect.analysis.settings import DEPTH, MIXER, WIDTH, canonical, cell_settings
from recollect.plotting.text import mixer_title
from recollect.rows import RunRow
from recollect.spec.recipes.label import EVALUATION_KEYS

POSITIONS = "model.positions"
POSITION_NAMES = {"rope": "RoPE", "alibi": "ALiBi", "none": "no positions"}
LABELS = {"train.decay": "schedule"}  # for keys whose last part would mislead


@dataclass(frozen=True)
class FigureCell:
    """A cell and its coordinates in a figure."""

    runs: Cell
    mixer: str
    name: str  # the name of the model in the study
    variant: str  # how it differs from other cells of that name; mostly empty
    recipe: str  # how its task or recipe differs from others of the same size; mostly empty
    size: tuple[int, ...]  # the size of the task: length and pairs, or letters
    width: int
    depth: int

    @property
    def model(self) -> str:
        return join_name(self.name, self.variant)

    @property
    def task(self) -> str:
        words = (
            f"length {self.size[0]}, {self.size[1]} pairs"
            if len(self.size) == 2
            else f"up to {self.size[0]} letters"
        )
        return ", ".join(filter(None, [words, self.recipe]))

    @property
    def column(self) -> tuple[tuple[int, ...], str]:
        return self.size, self.recipe


def merge_repeats(rows: Sequence[RunRow], curves: Curves) -> list[RunRow]:
    """Remove the evaluation settings from rows; of runs that differ only in these, keep the most
    complete.

    The run ids remain those of the specifications as trained.
    """
    best: dict[str, RunRow] = {}
    for row in rows:
        train = {
            key: entry
            for key, entry in row.spec["train"].items()
            if f"train.{key}" not in EVALUATION_KEYS
        }
        bare = replace(row, spec={**row.spec, "train": train})
        known = best.setdefault(canonical(bare.spec), bare)
        if _completeness(bare, curves) > _completeness(known, curves):
            best[canonical(bare.spec)] = bare
    return list(best.values())


def to_figure_cells(cells: Sequence[Cell], unsaid: Collection[str] = ()) -> list[FigureCell]:
    """Every cell with its coordinates. Labels omit the keys in `unsaid`, which the figure shows in
    another way.
    """
    flats = [cell_settings(cell.rows[0].spec) for cell in cells]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for flat in flats:
        coordinates = flat.get(MIXER), _size(flat), flat.get(WIDTH), flat.get(DEPTH)
        groups.setdefault(coordinates, []).append(flat)
    of_model: dict[Any, set[str]] = {}
    of_recipe: set[str] = set()
    for (mixer, *_), group in groups.items():
        # Attention's positions are part of its name.
        said = {POSITIONS} if mixer == "attention" else set()
        differing = differing_keys(group) - set(unsaid) - said
        model_keys = {key for key in differing if key.startswith("model.")}
        of_model.setdefault(mixer, set()).update(model_keys)
        of_recipe |= differing - model_keys
    variants = [""] * len(cells)
    for mixer, keys in of_model.items():
        places = [place for place, flat in enumerate(flats) if flat.get(MIXER) == mixer]
        texts = _differences([flats[place] for place in places], keys)
        for place, text in zip(places, texts, strict=True):
            variants[place] = text
    return [
        FigureCell(
            runs=cell,
            mixer=str(flat.get(MIXER)),
            name=study_name(flat),
            variant=variant,
            recipe=recipe,
            size=_size(flat),
            width=flat.get(WIDTH, 0),
            depth=flat.get(DEPTH, 0),
        )
        for cell, flat, variant, recipe in zip(
            cells, flats, variants, _differences(flats, of_recipe), strict=True
        )
    ]


def study_name(flat: Mapping[str, Any]) -> str:
    """A model's name in the study. Attention includes its positions unless they are learned."""
    mixer = str(flat.get(MIXER))
    positions = flat.get(POSITIONS, "learned") if mixer == "attention" else "learned"
    kind = POSITION_NAMES.get(positions, f"{positions} positions")
    return mixer_title(mixer) + (f" ({kind})" if positions != "learned" else "")


def _completeness(row: RunRow, curves: Curves) -> tuple[bool, bool, int]:
    """Whether the run has a result, whether it was trained to the end, and its number of
    evaluations.
    """
    has_score = row.has_result and row.score is not None
    return has_score, not row.stopped_early, len(curves.get(row.run_id, ()))


def _size(flat: Mapping[str, Any]) -> tuple[int, ...]:
    if "task.length" in flat:
        return flat["task.length"], flat.get("task.pairs", 1)
    return (flat.get("task.max_length", 0),)


def _differences(flats: Sequence[Mapping[str, Any]], keys: set[str]) -> list[str]:
    """For each cell the values of the keys in words; "none" if the cell lacks the setting."""
    missing = dict.fromkeys(keys)
    labels = {key: label for key, label in LABELS.items() if key in keys}
    return settings_texts([missing | dict(flat) for flat in flats], sorted(keys), labels)
