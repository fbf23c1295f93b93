"""Refusals of arguments of a wrong type, before anything is done with any argument."""

import os
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any, NamedTuple

from recollect.errors import SpecError
from recollect.spec.base import shorten


class Rule(NamedTuple):
    """What an argument must be, in words, and the test of it."""

    words: str
    fits: Callable[[Any], bool]


def _is_number(value: Any, kind: type) -> bool:
    """Whether it is a number of Python or NumPy; True and False are none."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_size(value: Any) -> bool:
    sides = value if isinstance(value, tuple) else (value,)
    return 1 <= len(sides) <= 2 and all(_is_number(side, Real) for side in sides)


TEXT = Rule("a text", lambda value: isinstance(value, str))
# An empty text is an unset variable more often than it is this folder, which is ".".
PATH = Rule("a path", lambda value: isinstance(value, str | os.PathLike) and value != "")
WHOLE = Rule("a whole number", lambda value: _is_number(value, Integral))
NUMBER = Rule("a number", lambda value: _is_number(value, Real))
FLAG = Rule("True or False", lambda value: isinstance(value, bool))
FUNCTION = Rule("a function", callable)
SIZE = Rule("a width in inches, or (width, height)", _is_size)


def or_none(rule: Rule) -> Rule:
    return Rule(f"{rule.words}, or None", lambda value: value is None or rule.fits(value))


def require(rule: Rule, example: str, **given: Any) -> None:
    """Refuse the first argument that does not fit; `example` is a value that would."""
    for name, value in given.items():
        if not rule.fits(value):
            raise SpecError(
                f"{name} = {shorten(value)}: must be {rule.words}; for example {name} = {example}"
            )


def as_list(rule: Rule, example: str, **given: Any) -> list[Any]:
    """The entries of an argument that is one value or several; refuse it if one does not fit."""
    ((name, value),) = given.items()
    if rule.fits(value):
        return [value]
    several = Rule(
        f"{rule.words}, or a list of such",
        lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes),
    )
    require(several, example, **given)
    entries = list(value)
    for place, entry in enumerate(entries):
        require(rule, example, **{f"{name}[{place}]": entry})
    return entries
