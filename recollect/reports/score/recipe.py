"""The settings that two scores must share to be comparable: task, training, sizes, rates and seeds;
everything except the mixer and its surroundings.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from recollect.analysis.settings import canonical, flatten
from recollect.analysis.wording import value_text
from recollect.errors import SpecError
from recollect.reports.score.card import SURROUNDINGS
from recollect.spec.train import TrainSpec
from recollect.tasks.options import TASKS

Spec = Mapping[str, Any]
CARD_AXES = ("model.depth", "model.width", "task.length")
CardCell = tuple[Any, ...]  # values of CARD_AXES


def card_cell(spec: Spec) -> CardCell:
    """The cell of a card to which a run belongs."""
    flat = flatten(spec)
    return tuple(flat.get(key) for key in CARD_AXES)


def trained_as(spec: Spec) -> str:
    """A text that is equal for runs which differ only in the mixer and its surroundings."""
    return canonical(_shared(spec))


def refuse_other_recipe(here: Iterable[Spec], there: Iterable[Spec], where: str) -> None:
    """Raise SpecError unless the runs `here` can be compared with those stored `there`.

    A cell that both cards have must have the same training settings, including rates and seeds. A
    cell that one of them lacks does not matter, as long as they share another cell.
    """
    ours, theirs = _by_cell(here), _by_cell(there)
    common = [cell for cell in ours if cell in theirs]
    other = next(
        (cell for cell in common if _identity(ours[cell]) != _identity(theirs[cell])), None
    )
    if common and other is None:
        return
    told = (
        _difference(ours[other], theirs[other])
        if other
        else "no depth, width and length that both have"
    )
    raise SpecError(
        f"{where}: scores of another recipe cannot be compared\n{told}\n"
        "use the same --card and the same --set, or score the baselines again with these"
    )


def _by_cell(specs: Iterable[Spec]) -> dict[CardCell, list[dict[str, Any]]]:
    cells: dict[CardCell, list[dict[str, Any]]] = {}
    for spec in specs:
        shared = _shared(spec)
        cells.setdefault(card_cell(spec), []).append(shared)
    return cells


def _identity(runs: Iterable[dict[str, Any]]) -> set[str]:
    return {canonical(run) for run in runs}


def _difference(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> str:
    """The settings whose values differ, at most three."""
    keys = list(dict.fromkeys(key for run in [*ours, *theirs] for key in run))
    told = []
    for key in keys:
        here, there = ({value_text(run.get(key)): None for run in runs} for runs in (ours, theirs))
        if here.keys() != there.keys():
            told.append(f"{key}: {_values(list(here))} here, {_values(list(there))} there")
    return "; ".join(told[:3]) or "the same values in other combinations"


def _shared(spec: Spec) -> dict[str, Any]:
    """The flat settings except those of the mixer and its surroundings."""
    model = {
        key: value for key, value in spec["model"].items() if key not in ("mixer", *SURROUNDINGS)
    }
    task = _filled(TASKS.get(spec["task"].get("name")), spec["task"])
    return flatten(
        {**spec, "task": task, "model": model, "train": _filled(TrainSpec, spec["train"])}
    )


def _filled(kind: Any, table: dict[str, Any]) -> dict[str, Any]:
    """Fill in the defaults of options that did not exist when a row was stored; they do not change
    its meaning.
    """
    try:
        return dict(kind.model_validate(table).model_dump(mode="json")) if kind else table
    except ValidationError:
        return table


def _values(values: list[str]) -> str:
    return ", ".join(values[:4]) + (", ..." if len(values) > 4 else "")
