"""The rows of one scale and one recipe that a figure or table of the study shows, and the recipes
under which it compares anything.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from recollect.errors import SpecError
from recollect.reports.paper.evidence import rows_by_recipe
from recollect.reports.paper.figures.all_figures import DEFINITIONS, OWN_TABLES, TABLES
from recollect.reports.pictures.choosing import RECIPE, SCALE
from recollect.reports.pictures.comparable import Choice, asked_for, has_two_mixers
from recollect.reports.pictures.shown import Source
from recollect.rows import RunRow
from recollect.spec.recipes import RECIPES, recipe_of, scale_of


def choose_for_figure(name: str, source: Source, where: Iterable[str] = ()) -> Choice:
    """The rows of a figure or table of the study; of `why`, which compares recipes, the rows of one
    scale.
    """
    has_something = partial(compares, name)
    if name in OWN_TABLES:
        return asked_for(name, source, where).of_one(SCALE, scale_of, has_something)
    definition = DEFINITIONS[name]
    fitting = [row for row in source.rows if definition.fits(row)]
    if not fitting:
        return asked_for(name, source, where)
    choice = asked_for(name, replace(source, rows=fitting), where, definition.varies)
    choice = choice.of_one(SCALE, scale_of, has_something)
    return choice.of_one(RECIPE, partial(recipe_of, varied=definition.varies), has_something)


def comparing(name: str, rows: Iterable[RunRow]) -> dict[str, list[RunRow]]:
    """The rows by recipe, of the recipes under which a figure of the study compares anything.

    Changes of a recipe are left out where a whole recipe compares something: what they do is shown
    by the figure of causes.
    """
    found = rows_by_recipe(rows, DEFINITIONS[name].varies)
    found = {recipe: own for recipe, own in found.items() if compares(name, own)}
    return {recipe: own for recipe, own in found.items() if recipe in RECIPES} or found


def compares(name: str, rows: Sequence[RunRow]) -> bool:
    """Whether there is something to compare: two mixers of a figure, the variants of a table."""
    if name in OWN_TABLES or name in TABLES:
        try:
            lines = (TABLES | OWN_TABLES)[name](rows, {}, "min-max").lines
        except SpecError:
            return False
        return len(lines) > (name in TABLES)
    return has_two_mixers([row for row in rows if DEFINITIONS[name].fits(row)])
