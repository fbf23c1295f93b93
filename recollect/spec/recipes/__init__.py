"""Recipes: named sets of the choices that a study leaves open, as documented TOML beside this file.

A recipe does two things. It fills what a specification does not say (`Recipe.fill`), and it names
what a finished run was trained with (`recipe_of`): the label follows from the content of a row, so
that every stored row has one and no id depends on a recipe's name.

Works on specifications as data: neither torch nor pydantic is needed to label rows.
"""

from recollect.spec.recipes.label import recipe_name, recipe_of
from recollect.spec.recipes.recipe import RECIPES, Recipe, choose_recipe

__all__ = ["RECIPES", "Recipe", "choose_recipe", "recipe_name", "recipe_of"]
