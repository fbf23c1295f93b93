"""Conversion between Python values and values of the results database.

A file may contain anything, regardless of its table definitions. Every value that is read is
checked for its type and range; a bad value raises a BadRowError that names it.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

from recollect.rows import STATUSES, Evaluation, RunRow, StopReason
from recollect.store.schema import RUN_COLUMNS

# Stored as the index in this list, which only grows.
STOPS: tuple[StopReason | None, ...] = (None, "solved", "hopeless")
SCORE_NAMES = ("accuracy", "exact")
LATEST = 1e11  # seconds since 1970; later times cannot be shown as a date
_RUN_ID = re.compile(r"[\w-][\w.-]{0,63}", re.ASCII)  # run ids also serve as file names
_SHOWN = 40  # characters of a bad value in a message

T = TypeVar("T")


class BadRowError(ValueError):
    """A row that this program cannot have written; the message names the bad value."""


def number(value: float) -> float | str:
    """A float as it is stored; NaN becomes the text "nan", since SQLite has no NaN."""
    return "nan" if value != value else float(value)


def point(run_id: str, evaluation: Evaluation) -> tuple[Any, ...]:
    """An evaluation as the values of schema.PUT_POINT, without the checksum."""
    e = evaluation
    numbers = (number(e.train_loss), number(e.test_loss), number(e.accuracy), number(e.exact))
    train_score = None if e.train_score is None else number(e.train_score)
    return (run_id, e.step, *numbers, json.dumps(e.slices), train_score)


def evaluation(columns: tuple[Any, ...]) -> Evaluation:
    """An evaluation from the values of schema.POINT_COLUMNS, without the checksum."""
    step, train_loss, test_loss, accuracy, exact, slices, train_score = columns
    return Evaluation(
        _whole("step", step),
        _float("train_loss", train_loss),
        _float("test_loss", test_loss),
        _float("accuracy", accuracy),
        _float("exact", exact),
        # Most points have no slices, and a store may hold a million points.
        {} if slices == "{}" else _slices(slices),
        None if train_score is None else _float("train_score", train_score),
    )


def run_row(columns: tuple[Any, ...], last: Evaluation | None) -> RunRow:
    """A run from schema.RUN_COLUMNS and the last point of its curve."""
    stored = dict(zip(RUN_COLUMNS, columns, strict=True))
    for status, reason in (("diverged", "diverged_step"), ("failed", "failure")):
        if (stored["status"] == status) != (stored[reason] is not None):
            refuse(reason, stored[reason], f"what a run that is {shown(stored['status'])} has")
    steps = whole_or_none("steps", stored["steps"])
    wall_s = None if stored["wall_s"] is None else _float("wall_s", stored["wall_s"])
    if stored["status"] == "failed":
        # A failed run is ended from outside its training, where neither number is known.
        steps, wall_s = steps or None, wall_s or None
    stop = _whole("stopped_early", stored["stopped_early"])
    return RunRow(
        run_id=run_id(stored["run_id"]),
        spec=table("spec", stored["spec"]),
        status=_one_of("status", stored["status"], STATUSES),
        score_name=_one_of("score_name", stored["score_name"], SCORE_NAMES),
        chance=_share("chance", stored["chance"]),
        attempt=_whole("attempt", stored["attempt"]),
        steps=last.step if steps is None and last else steps,
        wall_s=wall_s,
        train_loss=last.train_loss if last else None,
        test_loss=last.test_loss if last else None,
        accuracy=last.accuracy if last else None,
        exact=last.exact if last else None,
        train_score=last.train_score if last else None,
        stopped_early=_one_of("stopped_early", STOPS[stop] if stop < len(STOPS) else stop, STOPS),
        diverged_step=whole_or_none("diverged_step", stored["diverged_step"]),
        failure=_text_or_none("failure", stored["failure"]),
        parameters=whole_or_none("parameters", stored["parameters"]),
        state_size=whole_or_none("state_size", stored["state_size"]),
        device=_text_or_none("device", stored["device"]),
        threads=whole_or_none("threads", stored["threads"]),
        versions=_texts("versions", table("versions", stored["versions"])),
        drift=_lines("drift", stored["drift"]),
    )


def run_id(value: Any) -> str:
    if type(value) is not str or not _RUN_ID.fullmatch(value):
        refuse("run_id", value, "the id of a run")
    return value


def text(name: str, value: Any) -> str:
    if type(value) is not str:
        refuse(name, value, "a text")
    return value


def name_list(name: str, value: Any) -> list[str]:
    """A JSON list of texts."""
    try:
        found = json.loads(text(name, value))
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(entry, str) for entry in found):
        refuse(name, value, "a list of names")
    return found


def moment(name: str, value: Any) -> float:
    """Seconds since 1970."""
    found = _float(name, value)
    if not 0 <= found <= LATEST:
        refuse(name, value, "a moment")
    return found


def table(name: str, value: Any) -> dict[str, Any]:
    """Parse a JSON text that must be an object."""
    try:
        found = json.loads(text(name, value))
    except (ValueError, RecursionError):  # bad JSON, numbers of thousands of digits, deep nesting
        found = None
    if type(found) is not dict:
        refuse(name, value, "a table in JSON")
    return found


def shown(value: Any) -> str:
    """A value as one short line of printable ASCII, for a message."""
    # The whole repr of a long text would be slow.
    part = value[: 2 * _SHOWN] if isinstance(value, str | bytes) else value
    found = ascii(part)
    return found if len(found) <= _SHOWN else f"{found[:_SHOWN]}..."


def refuse(name: str, value: Any, wanted: str) -> NoReturn:
    raise BadRowError(f"{name} = {shown(value)} is not {wanted}")


def _float(name: str, value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    if value != "nan":
        refuse(name, value, "a number")
    return float("nan")


def _share(name: str, value: Any) -> float:
    found = _float(name, value)
    if not 0 <= found <= 1:
        refuse(name, value, "between 0 and 1")
    return found


def _whole(name: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        refuse(name, value, "a whole number of at least 0")
    return value


def whole_or_none(name: str, value: Any) -> int | None:
    return None if value is None else _whole(name, value)


def _text_or_none(name: str, value: Any) -> str | None:
    return None if value is None else text(name, value)


def _one_of(name: str, value: Any, known: tuple[T, ...]) -> T:
    for one in known:
        if one == value:
            return one
    refuse(name, value, f"one of {', '.join(map(str, known))}")


def _texts(name: str, found: Mapping[str, Any]) -> dict[str, str]:
    return {key: text(f"{name}.{shown(key)}", value) for key, value in found.items()}


def _lines(name: str, value: Any) -> tuple[str, ...]:
    """A list of texts, stored one per line; empty if NULL."""
    return tuple((_text_or_none(name, value) or "").splitlines())


def _slices(value: Any) -> dict[str, dict[str, float]]:
    found = table("slices", value)
    for split in found.values():
        if type(split) is not dict or not all(
            type(entry) is float or (type(entry) is int and abs(entry) < 2**63)
            for entry in split.values()
        ):
            refuse("slices", value, "numbers by test split")
    return found
