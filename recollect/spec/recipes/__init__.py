"""Recipes: named sets of the choices that a study leaves open, as documented TOML in this folder.

A recipe has two uses. It fills in the settings that a specification leaves out (`Recipe.fill`), and
it labels finished runs (`recipe_of`). The label follows from the content of a row, so that every
stored row has one and no id depends on the name of a recipe.

The package works on specifications as plain data: neither torch nor pydantic is needed to label
rows.
"""

from recollect.spec.recipes.label import compared_keys, recipe_name, recipe_of, scale_of
from recollect.spec.recipes.recipe import RECIPES, Recipe, choose_recipe

__all__ = [
    "RECIPES",
    "Recipe",
    "choose_recipe",
    "compared_keys",
    "recipe_name",
    "recipe_of",
    "scale_of",
]
