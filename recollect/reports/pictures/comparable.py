"""Of all rows of a folder, those that one picture shows: rows of one scale and one recipe, since
runs of another scale or recipe are another measurement. It also says what is left out.

Rows that differ from every recipe are taken together: a change of one setting may make one model's
rows nearest to another recipe than another model's. The scale is chosen first. What compares
anything comes before what does not, then the study's scale and recipe, then another whole recipe,
then the most results. `--where scale=NAME` and `--where recipe=NAME` choose instead; of a list of
names, or of `all`, the rows are shown together.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recollect.analysis import count_text, get_setting
from recollect.analysis.settings import MIXER
from recollect.errors import SpecError
from recollect.reports.pictures.choosing import (
    ALL,
    MOST_LISTED,
    RECIPE,
    SCALE,
    as_list,
    choose_rows,
    keys_of_several,
    read_condition,
    what_there_is,
)
from recollect.reports.pictures.shown import Source
from recollect.rows import RunRow
from recollect.spec.base import shorten
from recollect.spec.recipes import RECIPES, recipe_of, scale_of
from recollect.spec.recipes.label import SCALES

WHOLE = {*SCALES, *RECIPES}
FIRST = {"full", "study"}
SCALE_WORDS = {"full": "the study's size", "small": "a smaller size"}
MOST_NAMED = 3  # recipes in the text on what is left out


@dataclass(frozen=True)
class Group:
    """The rows of one scale, or of one recipe."""

    key: str  # SCALE or RECIPE
    name: str
    rows: Sequence[RunRow]

    @property
    def results(self) -> int:
        """How many of its runs have a result."""
        return sum(row.has_result for row in self.rows)

    @property
    def what(self) -> str:
        """Its name in words."""
        return SCALE_WORDS[self.name] if self.key == SCALE else self.name


@dataclass(frozen=True)
class Choice:
    """The rows that are shown, the groups they are of, and the groups that are left out."""

    source: Source
    together: frozenset[str] = frozenset()  # the keys of which all groups are shown
    shown: tuple[Group, ...] = ()
    left_out: tuple[Group, ...] = ()

    def of_one(
        self,
        key: str,
        name_of: Callable[[Mapping[str, Any]], str],
        compares: Callable[[Sequence[RunRow]], bool],
    ) -> "Choice":
        """Keep the rows of one scale or recipe; `name_of` gives its name."""
        found: dict[str, list[RunRow]] = {}
        for row in self.source.rows:
            found.setdefault(name_of(row.spec), []).append(row)
        groups = [Group(key, name, rows) for name, rows in found.items()]
        groups.sort(key=lambda group: (group.results, len(group.rows)), reverse=True)
        if key in self.together or not groups or not groups[0].results:
            return self
        parts = [[group] for group in groups if group.name in WHOLE]
        if changed := [group for group in groups if group.name not in WHOLE]:
            parts.append(changed)
        chosen = _best(parts, compares)
        names = [group.name for group in chosen]
        left_out = (*self.left_out, *(group for group in groups if group.name not in names))
        rows = [row for row in self.source.rows if name_of(row.spec) in names]
        return replace(
            self,
            source=replace(self.source, rows=rows, left_out=left_out_text(left_out)),
            shown=(*self.shown, *chosen),
            left_out=left_out,
        )

    def line(self, picture: str) -> str:
        """What is shown, what is left out and how to get it; empty if nothing is left out."""
        if not self.left_out:
            return ""
        recipes = [group.what for group in self.shown if group.key == RECIPE]
        sizes = [group.what for group in self.shown if group.key == SCALE]
        what = f"the recipe {recipes[0]}" if len(recipes) == 1 else "runs"
        size = f" at {sizes[0]}" if sizes else ""
        firsts = {group.key: group for group in reversed(self.left_out)}
        asked = [
            f"--where {shlex.quote(f'{key}={firsts[key].name}')}"
            for key in (RECIPE, SCALE)
            if key in firsts
        ]
        return (
            f"{picture} shows {what}{size}. Left out: {left_out_text(self.left_out)}. Choose with "
            f"{' or '.join(asked)}"
        )


def _best(
    parts: Sequence[list[Group]], compares: Callable[[Sequence[RunRow]], bool]
) -> list[Group]:
    """The groups to show, of several parts of which some has a result; the first of equal ones."""
    if len(parts) == 1:
        return parts[0]

    def rank(part: list[Group]) -> tuple[bool, bool]:
        return compares([row for group in part for row in group.rows]), part[0].name in FIRST

    return max((part for part in parts if part[0].results), key=rank)


def left_out_text(groups: Sequence[Group]) -> str:
    """Groups in words: "195 results of plain; 480 results of a smaller size"."""
    recipes = [group for group in groups if group.key == RECIPE]
    named = recipes if len(recipes) <= MOST_NAMED else recipes[: MOST_NAMED - 1]
    scales = [group for group in groups if group.key == SCALE]
    texts = [f"{_count([group])} of {group.what}" for group in (*named, *scales)]
    if rest := recipes[len(named) :]:
        texts.insert(len(named), f"{_count(rest)} of {len(rest)} other recipes")
    return "; ".join(texts)


def choose_for_picture(picture: str, source: Source, where: Iterable[str] = ()) -> Choice:
    """The rows of a picture of any rows."""
    return of_one_recipe(asked_for(picture, source, where))


def of_one_recipe(choice: Choice) -> Choice:
    """Keep the rows that a picture of any rows shows.

    Its lines name the settings in which they differ, so it also shows what a sweep changed in a
    recipe. Only if there are rows of several whole recipes does it show one of them alone.
    """
    choice = choice.of_one(SCALE, scale_of, has_two_mixers)
    ended = [row for row in choice.source.rows if row.has_result]
    if len({recipe_of(row.spec) for row in ended} & RECIPES.keys()) > 1:
        choice = choice.of_one(RECIPE, recipe_of, has_two_mixers)
    return choice


def asked_for(
    picture: str, source: Source, where: Iterable[str], varied: Collection[str] = ()
) -> Choice:
    """The rows that meet the conditions. Raises SpecError if there is none, or if there is no run
    of a recipe that is asked for; the message names those there are.
    """
    where = list(where)
    if not source.rows or not where:
        return Choice(source)
    asked = dict(map(read_condition, where))
    labels = Counter(recipe_of(row.spec) for row in source.rows)
    known = [*labels, *{recipe_of(row.spec, varied) for row in source.rows}]
    for name in as_list(asked.get(RECIPE, ALL)):
        if name not in (*known, ALL):
            there = [f"{own} ({count_text(n, 'run')})" for own, n in labels.most_common()]
            more = f"; and {len(there) - MOST_LISTED} more" if len(there) > MOST_LISTED else ""
            raise SpecError(
                f"--where {shorten(f'{RECIPE}={name}')}: {picture} shows no run of that recipe in "
                f"{source.name};\nthere are: {'; '.join(there[:MOST_LISTED])}{more}"
            )
    rows = choose_rows(source.rows, where, varied)
    if not any(row.has_result for row in rows):
        given = " ".join(f"--where {shlex.quote(text)}" for text in where)
        if not rows:
            raise SpecError(
                f"{given}: none of the {len(source.rows):,} runs of {source.name} fits;\n"
                f"{what_there_is(source.rows, where, varied)}"
            )
        raise SpecError(f"{replace(source, rows=rows).no_result},\nor leave out {given}")
    return Choice(replace(source, rows=rows), keys_of_several(where))


def has_two_mixers(rows: Iterable[RunRow]) -> bool:
    """Whether there are results of two mixers to compare."""
    return len({get_setting(row, MIXER) for row in rows if row.has_result}) > 1


def _count(groups: Sequence[Group]) -> str:
    results = sum(group.results for group in groups)
    if results:
        return count_text(results, "result")
    return f"{count_text(sum(len(group.rows) for group in groups), 'run')} without a result"
