"""Base of all parts of a specification: frozen, closed, strictly typed models with clear errors.

A specification is data: reading it from TOML executes nothing, and two spellings of the same
content are equal.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from recollect.errors import SpecError


class PerMember:
    """Marks a field that may differ between the members of a population: it changes no shape."""


class Later:
    """Marks a field that is not written at its default value.

    Such a field was added when there were stored runs already; this keeps their ids.
    """


# TOML has lists, but a frozen model needs tuples. Every other type is strict: "64" is not accepted
# for 64, nor true for 1.
Numbers = Annotated[tuple[int, ...], Field(strict=False)]


class Spec(BaseModel):
    """Base of every specification model."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True
    )

    @model_validator(mode="before")
    @classmethod
    def _plain_zero(cls, raw: Any) -> Any:
        """Replace -0.0 by 0.0: they are the same number and must not give two ids."""
        if isinstance(raw, dict):
            return {
                key: 0.0 if isinstance(value, float) and value == 0 else value
                for key, value in raw.items()
            }
        return raw

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        table: dict[str, Any] = write(self)
        for name in unwritten(self):
            table.pop(name, None)
        return table

    @classmethod
    def parse(cls, raw: Any, at: str = "") -> Self:
        """Validate `raw` as a specification, or raise a SpecError of at most three lines.

        `at` is the path of `raw` in the whole specification, e.g. "train".
        """
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise SpecError(explain(error, cls, at)) from None


def unwritten(spec: BaseModel) -> set[str]:
    """The fields marked `Later` that have their default value."""
    return {
        name
        for name, default in marked(type(spec), Later).items()
        if getattr(spec, name) == default
    }


@cache  # called for every run of a sweep
def marked(model: type[BaseModel], mark: type) -> Mapping[str, Any]:
    """Defaults of the fields of a model that have a mark such as `PerMember`, by name."""
    return {
        name: field.default
        for name, field in model.model_fields.items()
        if any(isinstance(entry, mark) for entry in field.metadata)
    }


class NestedError(ValueError):
    """Problems of a part that was validated separately.

    Each line starts with the path inside that part.
    """


def by_name(registry: Mapping[str, type[Spec]], what: str, hint: str = "") -> Callable[[Any], Any]:
    """Return a validator that picks the model class by the `name` of a part.

    A bare name stands for that class with its defaults. This is not a closed union of types because
    the registry may grow after import (plugins).
    """

    def choose(raw: Any) -> Any:
        if isinstance(raw, Spec):
            return raw
        table = {"name": raw} if isinstance(raw, str) else raw
        if not isinstance(table, dict):
            raise ValueError(
                f"{shorten(raw)} must be the name of a {what} or a table with a name; see "
                f"`recollect {what}s`"
            )
        name = table.get("name")
        if not isinstance(name, str) or name not in registry:
            raise ValueError(
                f"{shorten(name)} is no {what} here; "
                f"{suggest(str(name), registry, f'recollect {what}s', hint)}"
            )
        try:
            return registry[name].model_validate(table)
        except ValidationError as error:
            options = f"recollect {what}s {name}"
            raise NestedError(explain(error, registry[name], listed=options)) from None

    return choose


# Names that other programs use for our keys.
OTHER_NAMES = {
    "learning_rate": "lr",
    "rate": "lr",
    "wd": "weight_decay",
    "batch_size": "batch",
    "max_steps": "steps",
    "d_model": "width",
    "hidden_size": "width",
    "dim": "width",
    "layers": "depth",
    "n_layers": "depth",
    "num_layers": "depth",
    "seq_len": "length",
    "sequence_length": "length",
    "vocab_size": "vocabulary",
    "num_kv_pairs": "pairs",
}


def explain(error: ValidationError, model: type[BaseModel], at: str = "", listed: str = "") -> str:
    """Format a pydantic error as at most three lines: path = value: rule; remedy.

    `listed`: a command that lists the keys of the model.
    """
    problems = error.errors(include_url=False)
    explained = problems[:20]  # a hostile file can have 100,000, but at most three are shown
    texts = [_explain_one(problem, model, at, listed) for problem in explained]
    lines = list(dict.fromkeys(line for text in texts for line in text.splitlines()))
    found = len(lines) + len(problems) - len(explained)
    if found > 3:
        lines = [*lines[:2], f"and {found - 2} more problems"]
    return "\n".join(lines)


def shorten(value: Any, limit: int = 60) -> str:
    """The repr of a value, cut to at most `limit` characters for a one-line message."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


# Letters that known names may take in a message; more if no command lists them.
MOST_LETTERS, MOST_UNLISTED = 90, 300
MOST_NEAREST = 4  # names if there are too many
_MOST_COMPARED = 100  # letters of a name: comparing takes long


def suggest(name: str, known: Iterable[str], listed: str = "", hint: str = "") -> str:
    """Return `did you mean X?` if a known name is similar, else the known names and the hint. Of
    many names only the nearest are named; `listed` is the command that lists all.
    """
    known, name = sorted(known), name[:_MOST_COMPARED]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    told = ", ".join(known)
    if len(told) > (MOST_LETTERS if listed else MOST_UNLISTED):
        nearest = difflib.get_close_matches(name, known, n=MOST_NEAREST, cutoff=0.0)
        told = f"{', '.join(nearest)} and {len(known) - len(nearest)} more"
        told += f"; `{listed}` lists all" if listed else ""
    return f"known: {told}{hint}"


_RULES = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be one of {expected}",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "tuple_type": "must be a list",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "model_type": "must be a table of keys",
}


def broken_rule(problem: ErrorDetails) -> str:
    """The rule that a refused value breaks, in words."""
    rule = _RULES.get(problem["type"])
    return rule.format(**problem.get("ctx", {})) if rule else problem["msg"].lower()


def _explain_one(problem: ErrorDetails, model: type[BaseModel], at: str, listed: str) -> str:
    # Unions add the tag of the branch to the location; only real keys belong in a path.
    location = [str(part) for part in problem["loc"]]
    path = ".".join([part for part in [at] if part] + location)
    kind, context, value = problem["type"], problem.get("ctx", {}), problem["input"]
    field = _field_at(model, location)
    if kind == "extra_forbidden":
        owner = _model_at(model, location[:-1]) or model
        known = OTHER_NAMES.get(location[-1], "")
        if known in owner.model_fields:
            return f"{path}: unknown key; did you mean {known}?"
        command = listed if owner is model else ""
        return f"{path}: unknown key; {suggest(location[-1], owner.model_fields, command)}"
    if kind == "missing":
        return f"{path}: missing; {_remedy(location[-1], field)}"
    if kind == "value_error":
        message = str(context["error"])
        if isinstance(context["error"], NestedError):
            return "\n".join(f"{path}.{line}" for line in message.splitlines())
        return f"{path}: {message}" if path else message
    remedy = _remedy(location[-1] if location else at, field)
    return f"{path} = {shorten(value)}: {broken_rule(problem)}; {remedy}"


def _model_at(model: type[BaseModel], location: list[str]) -> type[BaseModel] | None:
    for part in location:
        field = model.model_fields.get(part)
        if field is None or not (
            isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        ):
            return None
        model = field.annotation
    return model


def _field_at(model: type[BaseModel], location: list[str]) -> FieldInfo | None:
    owner = _model_at(model, location[:-1]) if location else None
    return owner.model_fields.get(location[-1]) if owner else None


def _remedy(name: str, field: FieldInfo | None) -> str:
    """What to write instead: the field's example, else its default, else its description."""
    if field is None:
        return "see `recollect tasks` and `recollect mixers` for what can be written"
    example = (
        field.examples[0] if field.examples else None if field.is_required() else field.default
    )
    meaning = f" ({field.description})" if field.description else ""
    if example is None:
        return f"give {name}{meaning}"
    return f"for example {name} = {toml_value(example)}{meaning}"


def toml_value(value: Any) -> str:
    """A value as it would be written in a TOML file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(entry) for entry in value) + "]"
    return str(value)
