"""What two scores must share to be comparable: task, training, sizes, rates, seeds; all but the
mixer and its surroundings.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from recollect.analysis.settings import canonical, flatten, value_text
from recollect.errors import SpecError
from recollect.reports.score.card import SURROUNDINGS
from recollect.spec.train import TrainSpec
from recollect.tasks.options import TASKS

Spec = Mapping[str, Any]
Place = tuple[Any, ...]
PLACE = ("model.depth", "model.width", "task.length")  # where a cell stands on the card


def refuse_other_recipe(here: Iterable[Spec], there: Iterable[Spec], where: str) -> None:
    """SpecError unless the runs `here` can be compared with those stored `there`.

    Whatever stands at the same place of both cards must have been trained on the same, rates and
    seeds included. A place that one card does not have (not every mixer can be built at every depth
    and width) is no hindrance, as long as there is another.
    """
    ours, theirs = _by_place(here), _by_place(there)
    common = [place for place in ours if place in theirs]
    other = next(
        (place for place in common if _identity(ours[place]) != _identity(theirs[place])), None
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


def _by_place(specs: Iterable[Spec]) -> dict[Place, list[dict[str, Any]]]:
    places: dict[Place, list[dict[str, Any]]] = {}
    for spec in specs:
        shared = _shared(spec)
        places.setdefault(tuple(shared.get(key) for key in PLACE), []).append(shared)
    return places


def _identity(runs: Iterable[dict[str, Any]]) -> set[str]:
    return {canonical(run) for run in runs}


def _difference(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> str:
    """The settings whose values differ, three at most."""
    keys = list(dict.fromkeys(key for run in [*ours, *theirs] for key in run))
    told = []
    for key in keys:
        here, there = ({value_text(run.get(key)): None for run in runs} for runs in (ours, theirs))
        if here.keys() != there.keys():
            told.append(f"{key}: {_values(list(here))} here, {_values(list(there))} there")
    return "; ".join(told[:3]) or "the same values in other combinations"


def _shared(spec: Spec) -> dict[str, Any]:
    """The flat settings that have nothing to do with the mixer."""
    model = {
        key: value for key, value in spec["model"].items() if key not in ("mixer", *SURROUNDINGS)
    }
    task = _filled(TASKS.get(spec["task"].get("name")), spec["task"])
    return flatten(
        {**spec, "task": task, "model": model, "train": _filled(TrainSpec, spec["train"])}
    )


def _filled(kind: Any, table: dict[str, Any]) -> dict[str, Any]:
    """With what was stored before an option existed at that option's default: it meant the same."""
    try:
        return dict(kind.model_validate(table).model_dump(mode="json")) if kind else table
    except ValidationError:
        return table


def _values(values: list[str]) -> str:
    return ", ".join(values[:4]) + (", ..." if len(values) > 4 else "")
