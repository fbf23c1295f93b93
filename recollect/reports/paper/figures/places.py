"""Where a cell stands in a figure: its model, its task, its size, and what sets it apart from
others that share them.

Cells at the same place are told apart by what differs between them, never merged; only how often a
run was looked at does not count as a difference.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recollect.analysis import Cell, flatten
from recollect.analysis.settings import canonical, cell_settings, value_text
from recollect.rows import Evaluation, RunRow

MIXER, WIDTH, DEPTH, POSITIONS = "model.mixer.name", "model.width", "model.depth", "model.positions"
LOOKED = (
    "evaluations",
    "stop_solved",
    "stop_hopeless",
)  # how often a run was looked at, and when it was let go
NAMES = {
    "attention": "Attention",
    "base_conv": "Based (its conv layer)",
    "based": "Based",
    "based_hybrid": "Based (hybrid)",
    "delta_net": "DeltaNet",
    "h3": "H3",
    "hyena": "Hyena",
    "mamba": "Mamba",
    "mamba2": "Mamba2",
    "rwkv4": "RWKV",
    "s6": "S6 + MLP",
}
SHORT = {"train.decay": "schedule"}  # where the last part of a key would mislead

Curves = Mapping[str, Sequence[Evaluation]]


@dataclass(frozen=True)
class Place:
    """A cell and its coordinates in a figure."""

    cell: Cell
    mixer: str
    name: str  # the model's in the study
    variant: str  # what sets it apart from others of that name; mostly empty
    recipe: str  # what sets its task or recipe apart from others of the same size; mostly empty
    size: tuple[int, ...]  # of the task: length and pairs, or letters
    width: int
    depth: int

    @property
    def model(self) -> str:
        return ", ".join(filter(None, [self.name, self.variant]))

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


def pool(rows: Sequence[RunRow], curves: Curves) -> list[RunRow]:
    """Rows without the settings that only say how a run was looked at; of two such runs the one
    that tells more stays.
    """
    best: dict[str, RunRow] = {}
    for row in rows:
        train = {key: entry for key, entry in row.spec["train"].items() if key not in LOOKED}
        bare = replace(row, spec={**row.spec, "train": train})
        known = best.setdefault(canonical(bare.spec), bare)
        if _standing(bare, curves) > _standing(known, curves):
            best[canonical(bare.spec)] = bare
    return list(best.values())


def locate(cells: Sequence[Cell], unsaid: Collection[str] = ()) -> list[Place]:
    """Every cell with its coordinates, told apart from the others that share them; `unsaid`: keys
    told by other means.
    """
    flats = [cell_settings(cell.rows[0].spec) for cell in cells]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for flat in flats:
        groups.setdefault(
            (flat.get(MIXER), _size(flat), flat.get(WIDTH), flat.get(DEPTH)), []
        ).append(flat)
    of_model: dict[Any, set[str]] = {}
    of_recipe: set[str] = set()
    for (mixer, *_), group in groups.items():
        differing = _differing(group)
        differing = differing - set(unsaid) - ({POSITIONS} if mixer == "attention" else set())
        of_model.setdefault(mixer, set()).update(
            key for key in differing if key.startswith("model.")
        )
        of_recipe |= {key for key in differing if not key.startswith("model.")}
    return [
        Place(
            cell=cell,
            mixer=str(flat.get(MIXER)),
            name=study_name(flat),
            variant=_told(flat, of_model[flat.get(MIXER)]),
            recipe=_told(flat, of_recipe),
            size=_size(flat),
            width=flat.get(WIDTH, 0),
            depth=flat.get(DEPTH, 0),
        )
        for cell, flat in zip(cells, flats, strict=True)
    ]


def study_name(flat: dict[str, Any]) -> str:
    """A model's name as the study writes it; attention says its positions where they are not
    learned ones.
    """
    mixer = str(flat.get(MIXER))
    positions = flat.get(POSITIONS, "learned") if mixer == "attention" else "learned"
    kind = {"rope": "RoPE", "alibi": "ALiBi", "none": "no positions"}.get(
        positions, f"{positions} positions"
    )
    return NAMES.get(mixer, mixer) + (f" ({kind})" if positions != "learned" else "")


def recipe_text(places: Sequence[Place]) -> str:
    """The recipe in one line; where it differs between tasks or models, all values."""
    keys = {
        "vocabulary": "task.vocabulary",
        "data": "task.data",
        "batch": "train.batch",
        "steps": "train.steps",
        "weight decay": "train.weight_decay",
        "warmup": "train.warmup",
        "schedule": "train.decay",
        "precision": "train.precision",
    }
    flats = [flatten(place.cell.rows[0].spec) for place in places]
    told = []
    for word, key in keys.items():
        values = {canonical(flat[key]): flat[key] for flat in flats if key in flat}
        ordered = sorted(values.values(), key=lambda entry: (str(type(entry)), entry))
        if ordered:
            told.append(f"{word} {' or '.join(value_text(entry) for entry in ordered)}")
    return ", ".join(told)


def _standing(row: RunRow, curves: Curves) -> tuple[bool, bool, int]:
    """How much a row tells: a result, trained to its end, looked at often."""
    has_result = row.score is not None and row.status in ("done", "diverged")
    return has_result, not row.stopped_early, len(curves.get(row.run_id, ()))


def _size(flat: dict[str, Any]) -> tuple[int, ...]:
    if "task.length" in flat:
        return flat["task.length"], flat.get("task.pairs", 1)
    return (flat.get("task.max_length", 0),)


def _differing(group: Sequence[dict[str, Any]]) -> set[str]:
    keys = {key for flat in group for key in flat}
    return {key for key in keys if len({canonical(flat.get(key)) for flat in group}) > 1}


def _told(flat: dict[str, Any], keys: set[str]) -> str:
    words = [
        (SHORT.get(key, key.split(".")[-1]).replace("_", " "), value_text(flat.get(key)))
        for key in sorted(keys)
    ]
    return ", ".join(f"{word} {text}" for word, text in words)
