"""The specification of a run: frozen, with an id made from its content."""

import hashlib
import json
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, Field, SerializeAsAny, model_validator

from recollect.errors import SpecError
from recollect.spec.base import PerMember, Spec, by_name, marked, shorten, unwritten
from recollect.spec.model import ModelSpec
from recollect.spec.recipes.batches import steps_per_epoch
from recollect.spec.train import TrainSpec
from recollect.tasks.options import TASKS, TaskSpec

DEFAULT_EPOCHS = 50
DEFAULT_EVALUATIONS = 20

_choose_task = by_name(TASKS, "task")


class RunSpec(Spec):
    """Task, model, recipe and two seeds.

    Equal content, in whatever spelling, gives an equal id; any changed field another one.
    """

    task: Annotated[SerializeAsAny[TaskSpec], BeforeValidator(_choose_task)] = Field(
        examples=["mqar"], description="the task: a name, or a table with its options"
    )
    model: ModelSpec
    train: TrainSpec
    seed: Annotated[int, PerMember()] = Field(
        default=42, ge=0, lt=2**63, description="draws the initial weights"
    )
    data_seed: int = Field(
        default=0,
        ge=0,
        lt=2**63,
        description="draws the data, which all members of a population share",
    )

    @classmethod
    def parse_known(cls, raw: Any) -> "RunSpec | None":
        """Parse a specification; return None if it cannot be read here.

        A finished run may have a mixer whose code is not loaded or has been edited since.
        """
        try:
            return cls.parse(raw)
        except SpecError:
            return None

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, raw: Any) -> Any:
        """Fill in settings that depend on other parts.

        The batch follows from the length, steps from epochs, and evaluations from steps.
        """
        if not isinstance(raw, dict) or not isinstance(raw.get("train", {}), dict):
            return raw
        train = dict(raw.get("train", {}))
        try:
            task = _choose_task(raw["task"])
        except (KeyError, ValueError):
            # The field `task` reports the bad task. Valid numbers keep `train` from being reported
            # as well.
            return raw | {
                "train": {"steps": 1, "batch": 1, "evaluations": 1} | _without(train, "epochs")
            }
        train.setdefault("batch", task.default_batch)
        _resolve_steps(train, task)
        # The field `steps` reports bad steps.
        steps = train["steps"] if isinstance(train["steps"], int) else 1
        train.setdefault("evaluations", max(1, min(DEFAULT_EVALUATIONS, steps)))
        return raw | {"task": task, "train": train}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            self.task.check_batch(self.train.batch)
        except ValueError as error:
            raise ValueError(f"train.{error}") from None
        for option, value in (("order", "seed"), ("last_batch", "keep")):
            if getattr(self.train, option) == value and self.task.data == "fresh":
                raise ValueError(
                    f'train.{option} = "{value}": with data = "fresh" every row is new and there '
                    f"are no epochs; leave {option} out"
                )
        return self

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse a text written by `canonical_json`."""
        return cls.parse(json.loads(text))

    def canonical_json(self) -> str:
        """The content as one text: sorted keys, shortest round-trip numbers, no white space."""
        return json.dumps(
            self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), allow_nan=False
        )

    @cached_property
    def run_id(self) -> str:
        return _digest(self.canonical_json())

    @cached_property
    def shape_id(self) -> str:
        """Runs with an equal shape id can train as one population."""
        return _digest(json.dumps(_shared(self), sort_keys=True, allow_nan=False))

    @property
    def steps_per_epoch(self) -> int:
        train = self.train
        return steps_per_epoch(self.task.train_rows, train.batch, train.last_batch == "keep")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without(table: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != key}


def _resolve_steps(train: dict[str, Any], task: TaskSpec) -> None:
    epochs = train.pop("epochs", None)
    if epochs is not None and "steps" in train:
        raise ValueError(
            f"train.epochs = {shorten(epochs)} and train.steps = {shorten(train['steps'])}: give "
            "one of the two"
        )
    if "steps" in train:
        return
    epochs = DEFAULT_EPOCHS if epochs is None else epochs
    if (
        isinstance(epochs, bool)
        or not isinstance(epochs, int | float)
        or not 0 < epochs <= 1_000_000
    ):
        raise ValueError(
            f"train.epochs = {shorten(epochs)}: must be a number greater than 0 and at most "
            "1,000,000; for example epochs = 50"
        )
    batch = train["batch"]
    # The field `batch` reports a bad batch.
    rows_per_step = batch if isinstance(batch, int) and batch > 0 else 1
    keep_last = train.get("last_batch") == "keep"
    per_epoch = steps_per_epoch(task.train_rows, rows_per_step, keep_last)
    train["steps"] = max(1, round(epochs * per_epoch))


def _shared(value: Any) -> Any:
    """The content without the fields that may differ inside a population, at all levels."""
    if isinstance(value, tuple):
        return [_shared(entry) for entry in value]
    if not isinstance(value, BaseModel):
        return value
    left_out = unwritten(value) | marked(type(value), PerMember).keys()
    kept = {name: getattr(value, name) for name in type(value).model_fields if name not in left_out}
    return {name: _shared(inner) for name, inner in (kept | (value.model_extra or {})).items()}
