"""The user's selection: claims by name, recipes by name, rows of folders."""

from collections.abc import Sequence
from pathlib import Path

from recollect.errors import SpecError
from recollect.reports.paper.claims import CLAIMS, check, recipes_of
from recollect.reports.paper.claims.claim import Claim, Verdict
from recollect.reports.paper.claims.inspections import kept_per_token
from recollect.running.results import RunSet
from recollect.spec.base import shorten, suggest
from recollect.spec.recipes import RECIPES


def judge_results(
    results: RunSet,
    folders: Sequence[Path],
    recipe: str | None = None,
    claims: Sequence[Claim] = CLAIMS,
) -> dict[str, list[Verdict]]:
    """Verdicts by recipe: for `recipe` if given, else for the headline and every other recipe with
    rows.

    Rows that deviate from a recipe are judged only if they are named, as in "study but dropout=0".
    `folders` are searched for the records of inspections.
    """
    there = recipes_of(results.rows)
    if recipe is not None and recipe not in (*RECIPES, *there):
        raise SpecError(
            f"--recipe {shorten(recipe)}: {suggest(recipe, sorted({*RECIPES, *there}))}"
        )
    kept = kept_per_token(folders)
    return {
        name: check(results.rows, results.curves, name, claims, kept)
        for name in ([recipe] if recipe is not None else [n for n in there if n in RECIPES])
    }


def choose_claims(only: str | None) -> Sequence[Claim]:
    """Parse a list such as "C3,C15" into claims, in their usual order; None selects all claims."""
    if only is None:
        return CLAIMS
    names = {claim.name for claim in CLAIMS}
    wanted = [name.strip().upper() for name in only.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in names]
    if unknown or not wanted:
        raise SpecError(
            f"--only {shorten(only)}: {unknown[0] if unknown else 'nothing'} is no claim; they are "
            f"{CLAIMS[0]} to {CLAIMS[-1]}, as in --only C3,C15"
        )
    return [claim for claim in CLAIMS if claim.name in wanted]
