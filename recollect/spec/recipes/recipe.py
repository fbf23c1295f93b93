"""A recipe: the choices of its TOML file, by task and by mixer.

[pairs]                          # one part for each family of tasks that the recipe covers
tasks = ["mqar", "recall"]
left_to_mixer = ["norm"]         # not filled in: the mixer decides; values below serve as labels
[pairs.task]                     # settings that a specification's [task] may leave out
vocabulary_split = "halves"
[pairs.task_of.mqar]             # the same, for one task only
placement = "power"
[pairs.model]
positions = "none"
[pairs.model_of.attention]       # for one mixer only
positions = "learned"
[pairs.train]
epochs = 50
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from recollect.errors import SpecError

# The order decides between equally near recipes, see label.py.
NAMES = ("study", "zoology", "plain")
# A setting in a specification's [train] -> settings that a recipe then leaves alone: another form
# of the same setting, or the number of evaluations, which depends on the length of the training.
DECIDES = {
    "steps": ("epochs", "evaluations"),
    "epochs": ("evaluations",),
    "warmup": ("warmup_steps",),
    "warmup_steps": ("warmup",),
}
OF_EPOCHS = ("train.order", "train.last_batch")  # fresh rows have no epochs

Table = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Part:
    """The choices for one family of tasks."""

    tasks: tuple[str, ...]
    left_to_mixer: tuple[str, ...]
    task: Table
    task_of: Mapping[str, Table]
    model: Table
    model_of: Mapping[str, Table]
    train: Table

    def of_model(self, mixers: tuple[str, ...]) -> dict[str, Any]:
        """The choices for a model with these mixers.

        If the mixers of a stack have different choices for a key, the general one (`model`) is
        used.
        """
        keys = [*self.model, *(key for own in self.model_of.values() for key in own)]
        chosen: dict[str, Any] = {}
        for key in dict.fromkeys(keys):
            found = [self.model_of.get(mixer, {}).get(key, self.model.get(key)) for mixer in mixers]
            value = found[0] if len(set(found)) == 1 else self.model.get(key)
            if value is not None:
                chosen[key] = value
        return chosen


@dataclass(frozen=True, eq=False)
class Recipe:
    """A named set of choices, with the text of its file."""

    name: str
    about: str
    text: str
    parts: tuple[Part, ...]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that the recipe covers."""
        return tuple(task for part in self.parts for task in part.tasks)

    def part_of(self, task: str) -> Part | None:
        """The part for a task, or None if the recipe does not cover it."""
        return next((part for part in self.parts if task in part.tasks), None)

    @lru_cache(maxsize=1000)  # noqa: B019 -- recipes live as long as the program
    def choices(self, task: str, mixers: tuple[str, ...]) -> dict[str, Any] | None:
        """All choices by flat key ("train.warmup"), or None if the task is not covered."""
        part = self.part_of(task)
        if part is None:
            return None
        sections = {
            "task": {**part.task, **part.task_of.get(task, {})},
            "model": part.of_model(mixers),
            "train": part.train,
        }
        return {
            f"{section}.{key}": value
            for section, values in sections.items()
            for key, value in values.items()
        }

    def fill(self, table: Table) -> dict[str, Any]:
        """Return a run's specification with the open settings filled in; given ones are kept.

        A table that is not a specification is returned unchanged; `RunSpec` refuses it later.
        """
        given: dict[str, Any] = {
            "task": _named(table.get("task")),
            "model": table.get("model"),
            "train": table.get("train", {}),
        }
        task = str(given["task"].get("name"))
        if not covering(task) or not all(isinstance(part, dict) for part in given.values()):
            return dict(table)
        part = self.part_of(task)
        choices = self.choices(task, mixer_names(given["model"].get("mixer")))
        if part is None or choices is None:
            raise SpecError(
                f"recipe {self.name} covers {' and '.join(self.tasks)}, not {task}; use "
                f"{' or '.join(covering(task))}, or none"
            )
        own = {f"model.{key}" for key in part.left_to_mixer}
        own.update(f"train.{name}" for key in given["train"] for name in DECIDES.get(key, ()))
        if given["task"].get("data", choices.get("task.data")) == "fresh":
            own.update(OF_EPOCHS)
        filled = {section: dict(values) for section, values in given.items()}
        for key, value in choices.items():
            section, name = key.split(".")
            if key not in own:
                filled[section].setdefault(name, value)
        return {**table, **filled}


def mixer_names(mixer: Any) -> tuple[str, ...]:
    """Names of the mixers in a specification: one name, or one per layer of a stack."""
    layers = mixer.get("layers") if isinstance(mixer, Mapping) else mixer
    if isinstance(layers, list | tuple):
        return tuple(name for layer in layers for name in mixer_names(layer))
    return (str(_named(mixer).get("name")),)


def choose_recipe(name: Any) -> Recipe:
    """Return the recipe of that name, or raise a SpecError that lists the known names."""
    if not isinstance(name, str) or name not in RECIPES:
        raise SpecError(
            f"recipe = {str(name)[:60]!r}: must be one of {', '.join(RECIPES)}; "
            "`recollect recipes` explains them"
        )
    return RECIPES[name]


def covering(task: str) -> list[str]:
    """Names of the recipes that cover a task."""
    return [name for name, recipe in RECIPES.items() if recipe.part_of(task)]


def _named(part: Any) -> Table:
    """A task or mixer as a table; a bare name becomes a table with that name."""
    return part if isinstance(part, Mapping) else {"name": part}


def _read(names: Iterable[str]) -> dict[str, Recipe]:
    return {name: _parse(name, _path(name).read_text(encoding="utf-8")) for name in names}


def _path(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.toml")


def _parse(name: str, text: str) -> Recipe:
    table = tomllib.loads(text)
    about = table.pop("about")
    parts = tuple(
        Part(
            tasks=tuple(part["tasks"]),
            left_to_mixer=tuple(part.get("left_to_mixer", ())),
            **{key: part.get(key, {}) for key in ("task", "task_of", "model", "model_of", "train")},
        )
        for part in table.values()
    )
    return Recipe(name, about, text, parts)


RECIPES: dict[str, Recipe] = _read(NAMES)
