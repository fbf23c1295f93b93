"""The rows that one figure shows, of all there are: those of one scale and one recipe, since runs of
another scale or recipe are another measurement.

A group is the rows of one scale and one recipe; those with a result count. A group that compares
anything comes before one that does not, then one of the study's size, then the recipe `study`, then
the one with the most results. Conditions `recipe=NAME` and `scale=NAME` choose instead, and with a
list of values the figure shows all of them.

Pictures of any rows name the settings in which their lines differ, so they show what a sweep
changed in a recipe. Only if there are several whole recipes do they show one.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.analysis import Curves, count_text, get_setting
from recollect.analysis.settings import MIXER
from recollect.errors import SpecError
from recollect.reports.paper.evidence import BUT, rows_by_recipe, scale_of
from recollect.reports.paper.figures.all_figures import DEFINITIONS, OWN_TABLES, TABLES
from recollect.reports.paper.figures.table import Table
from recollect.reports.pictures.choosing import RECIPE, SCALE, choose_rows, read_conditions
from recollect.rows import RunRow
from recollect.spec.base import shorten
from recollect.spec.recipes import recipe_of
from recollect.spec.recipes.label import UNCOVERED

FULL = "full"
FIRST_RECIPE = "study"
SCALE_WORDS = {FULL: "the study's size", "small": "a smaller size"}
MOST_NAMED = 2  # recipes in the line on what is left out
MOST_LISTED = 6  # recipes in a refusal


@dataclass(frozen=True)
class Group:
    """Rows of one scale and one recipe; a name is empty if the rows are of several, as asked."""

    scale: str
    recipe: str
    rows: Sequence[RunRow]

    @property
    def results(self) -> int:
        return sum(row.has_result for row in self.rows)


@dataclass(frozen=True)
class Choice:
    """The rows that a figure shows, what they are, and the groups that are left out."""

    rows: Sequence[RunRow]
    shown: Group | None = None
    left_out: tuple[Group, ...] = ()

    def line(self, name: str) -> str:
        """What is left out and how to get it; empty if nothing is."""
        if self.shown is None or not self.left_out:
            return ""
        beside = [group for group in self.left_out if group.scale == self.shown.scale]
        others = [group for group in self.left_out if group.scale != self.shown.scale]
        parts = [f"{_count([group])} of {group.recipe}" for group in beside[:MOST_NAMED]]
        options = [f"{RECIPE}={group.recipe}" for group in beside[:1]]
        if rest := beside[MOST_NAMED:]:
            parts.append(f"{_count(rest)} of {count_text(len(rest), 'other recipe')}")
        if others:
            parts.append(f"{_count(others)} of {SCALE_WORDS[others[0].scale]}")
            options.append(f"{SCALE}={others[0].scale}")
        what = f"the recipe {self.shown.recipe}" if self.shown.recipe else "runs"
        size = f" at {SCALE_WORDS[self.shown.scale]}" if self.shown.scale else ""
        asked = " or ".join(f"--where {shlex.quote(option)}" for option in options)
        return f"{name} shows {what}{size}; left out: {', '.join(parts)}; choose with {asked}"


def choose_for_figure(name: str, rows: Sequence[RunRow], where: Iterable[str] = ()) -> Choice:
    """The rows of one of the study's figures or tables, or of `why`, which compares recipes."""
    definition = DEFINITIONS.get(name)
    varied = definition.varies if definition else ()

    def fitting(found: Sequence[RunRow]) -> list[RunRow]:
        return [row for row in found if definition is None or definition.fits(row)]

    asked = read_conditions(where, rows)
    _require_known(name, fitting(rows), asked, varied)
    chosen = choose_rows(rows, where, varied)
    groups = _groups(fitting(chosen), asked, varied)
    if definition is None:
        groups = _joined(groups)
    return _choose(chosen, groups, lambda ended: [_best(ended, lambda own: compares(name, own))])


def choose_for_picture(name: str, rows: Sequence[RunRow], where: Iterable[str] = ()) -> Choice:
    """The rows of a picture of any rows."""
    asked = read_conditions(where, rows)
    _require_known(name, rows, asked)
    chosen = choose_rows(rows, where)
    return _choose(chosen, _groups(chosen, asked), _shown_together)


def comparing(name: str, rows: Iterable[RunRow]) -> dict[str, list[RunRow]]:
    """The rows by recipe, of the recipes under which a figure of the study compares anything."""
    found = rows_by_recipe(rows, DEFINITIONS[name].varies)
    return {recipe: own for recipe, own in found.items() if compares(name, own)}


def compares(name: str, rows: Sequence[RunRow]) -> bool:
    """Whether there is something to compare: two mixers of a figure, the variants of a table."""
    if name in OWN_TABLES:
        return _lines(OWN_TABLES[name], rows) > 0
    if name in TABLES:
        return _lines(TABLES[name], rows) > 1
    return _has_two_mixers([row for row in rows if DEFINITIONS[name].fits(row)])


def _lines(make: Callable[[Sequence[RunRow], Curves, str], Table], rows: Sequence[RunRow]) -> int:
    try:
        return len(make(rows, {}, "min-max").lines)
    except SpecError:
        return 0


def _has_two_mixers(rows: Iterable[RunRow]) -> bool:
    return len({get_setting(row, MIXER) for row in rows if row.has_result}) > 1


def _groups(
    rows: Iterable[RunRow], asked: Mapping[str, Any], varied: Collection[str] = ()
) -> list[Group]:
    """The rows by scale and recipe; those that were asked for as a list are one group."""
    found: dict[tuple[str, str], list[RunRow]] = {}
    for row in rows:
        scale = "" if isinstance(asked.get(SCALE), list) else scale_of(row.spec)
        recipe = "" if isinstance(asked.get(RECIPE), list) else recipe_of(row.spec, varied)
        found.setdefault((scale, recipe), []).append(row)
    return [Group(scale, recipe, own) for (scale, recipe), own in found.items()]


def _joined(groups: Sequence[Group]) -> list[Group]:
    """The groups of each scale as one."""
    scales = dict.fromkeys(group.scale for group in groups)
    found = {scale: [group for group in groups if group.scale == scale] for scale in scales}
    return [
        own[0] if len(own) == 1 else Group(scale, "", [row for group in own for row in group.rows])
        for scale, own in found.items()
    ]


def _choose(
    rows: Sequence[RunRow], groups: Sequence[Group], pick: Callable[[list[Group]], list[Group]]
) -> Choice:
    """The rows of the groups that `pick` takes of those with a result; all rows if there is one
    group, or no result.
    """
    ended = [group for group in groups if group.results]
    if len(groups) < 2 or not ended:
        return Choice(rows, groups[0] if len(groups) == 1 else None)
    picked = pick(ended) if len(ended) > 1 else ended
    (shown,) = _joined(picked)
    ids = {id(row) for group in picked for row in group.rows}
    left_out = [group for group in groups if not any(group is own for own in picked)]
    left_out.sort(key=lambda group: (group.results, len(group.rows)), reverse=True)
    return Choice([row for row in rows if id(row) in ids], shown, tuple(left_out))


def _best(groups: Sequence[Group], is_compared: Callable[[Sequence[RunRow]], bool]) -> Group:
    return max(
        groups,
        key=lambda group: (
            is_compared(group.rows),
            group.scale == FULL,
            group.recipe == FIRST_RECIPE,
            group.results,
        ),
    )


def _shown_together(groups: list[Group]) -> list[Group]:
    """The groups of one scale; of several whole recipes, one alone."""
    scale = _best(_joined(groups), _has_two_mixers).scale
    own = [group for group in groups if group.scale == scale]
    whole = [group for group in own if BUT not in group.recipe and group.recipe != UNCOVERED]
    return [_best(whole, _has_two_mixers)] if len(whole) > 1 else own


def _require_known(
    name: str, rows: Sequence[RunRow], asked: Mapping[str, Any], varied: Collection[str] = ()
) -> None:
    """Raise SpecError for a recipe or scale of which there is no run; it names those there are."""
    for key, labels in (
        (RECIPE, lambda row: {recipe_of(row.spec), recipe_of(row.spec, varied)}),
        (SCALE, lambda row: {scale_of(row.spec)}),
    ):
        if key not in asked:
            continue
        counts = Counter(label for row in rows for label in labels(row))
        for value in asked[key] if isinstance(asked[key], list) else [asked[key]]:
            if value not in counts:
                listed = [f"{own} ({count_text(n, 'run')})" for own, n in counts.most_common()]
                there = ", ".join(listed[:MOST_LISTED]) or "none"
                more = f" and {len(listed) - MOST_LISTED} more" * (len(listed) > MOST_LISTED)
                raise SpecError(
                    f"--where {shorten(f'{key}={value}')}: {name} shows no run of that {key};\n"
                    f"there are: {there}{more}"
                )


def _count(groups: Sequence[Group]) -> str:
    results = sum(group.results for group in groups)
    if results:
        return count_text(results, "result")
    return count_text(sum(len(group.rows) for group in groups), "run") + " without a result"
