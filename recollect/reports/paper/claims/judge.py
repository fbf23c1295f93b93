"""From rows to verdicts.

Each claim's rule is applied to the rows of one recipe at the study's own scale. If these decide no
cell, the rule is applied to all rows, and the result is a remark.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from recollect.analysis import TAUS, Curves
from recollect.reports.paper.claims.checks import Check, join
from recollect.reports.paper.claims.claim import Claim, Verdict
from recollect.reports.paper.claims.coverage import (
    OPEN_OUTCOMES,
    CellCheck,
    Tally,
    tally,
    together,
)
from recollect.reports.paper.claims.groups import (
    Group,
    Kept,
    Subject,
    find_groups,
    find_subjects,
    size_text,
)
from recollect.reports.paper.claims.wanted import HEADLINE, Want, first_of_each
from recollect.reports.paper.study import is_full_scale, reductions
from recollect.rows import RunRow
from recollect.spec.recipes import RECIPES, recipe_of

RESAMPLES = 100  # gives the share of equal verdicts to about 0.05
MOST_OPEN = 2  # open cells that are described; cells to train are listed elsewhere


def judge(
    claims: Sequence[Claim],
    rows: Iterable[RunRow],
    curves: Curves,
    recipe: str = HEADLINE,
    kept: Kept | None = None,
    resamples: int = RESAMPLES,
) -> list[Verdict]:
    """One verdict per claim, in the order of the claims, by the rows of one recipe.

    `kept` is the decay that inspections measured (see inspections.py). `resamples` is
    the number of draws of seeds that estimate how firm a verdict is; 0 skips the estimate.
    """
    subjects = find_subjects(rows)
    return [_judge_one(claim, subjects, curves, recipe, kept or {}, resamples) for claim in claims]


def recipes_of(rows: Iterable[RunRow]) -> list[str]:
    """The recipes of rows at the study's scale: the headline first, then by decreasing runs."""
    counted = {HEADLINE: 0}
    for subject in find_subjects(rows):
        if is_full_scale(subject.recipe):
            label = recipe_of(_spec(subject))
            counted[label] = counted.get(label, 0) + subject.cell.scored_runs
    others = [name for name, runs in counted.items() if runs and name != HEADLINE]
    return [HEADLINE, *sorted(others, key=lambda name: (" but " in name, -counted[name]))]


def _judge_one(
    claim: Claim,
    subjects: Sequence[Subject],
    curves: Curves,
    recipe: str,
    kept: Kept,
    resamples: int,
) -> Verdict:
    subjects = [subject for subject in subjects if subject.flat.get("task.name") == claim.task]
    own = [s for s in subjects if claim.fits(s) and _is_of(s, recipe, claim.varies)]
    groups = find_groups(own, claim.roles, curves, strict=True, kept=kept)
    # Even without rows, the rule names the cells that it wants.
    asked = groups or [Group({}, curves, True, {}, ())]
    judged = [(group, tuple(claim.rule(group))) for group in asked]
    found = [(group, cells, _tally(claim, cells)) for group, cells in judged]
    decided = [entry for entry in found if entry[2].outcome != "not enough data"]
    group, cells, counted = (decided or found)[0]
    covered = _covers(recipe, claim.task)
    is_open = counted.outcome in OPEN_OUTCOMES
    known = counted.holding or counted.failing
    reduced = "" if known else _reduced(claim, subjects, curves, kept)
    others = [
        _otherwise(other, said, counted)
        for other, checked, said in decided[1:]
        if _depends_on_variant(other, checked)
    ]
    return Verdict(
        claim=claim,
        recipe=recipe,
        tally=counted,
        numbers=_numbers(claim, counted, cells, bool(groups))
        if covered
        else "this recipe says nothing about the task",
        remark=_remark(claim, _with_choices(group, bool(decided)), " ".join(others), reduced),
        cells=cells,
        resampled=_resampled(claim, group, resamples) if decided and claim.is_drawn else (),
        by_tau=_by_tau(claim, group) if claim.has_window and decided else (),
        wants=_wants(cells) if is_open and covered else (),
        reduced=reduced,
    )


def _by_tau(claim: Claim, group: Group) -> tuple[tuple[float, Tally], ...]:
    return tuple((tau, _tally(claim, claim.rule(replace(group, tau=tau)))) for tau in TAUS)


def _tally(claim: Claim, cells: Sequence[CellCheck]) -> Tally:
    return tally(claim.coverage, cells, claim.models)


def _resampled(claim: Claim, group: Group, resamples: int) -> tuple[tuple[str, float], ...]:
    """The kinds of verdict on all draws with their shares, the most frequent first.

    The draws are the same each time.
    """
    found = Counter(_tally(claim, claim.rule(drawn)).kind for drawn in group.redraws(resamples))
    return tuple((kind, count / resamples) for kind, count in found.most_common())


def _is_of(subject: Subject, recipe: str, varies: Sequence[str]) -> bool:
    """Whether it was trained by the recipe, apart from the settings that the claim varies."""
    return is_full_scale(subject.recipe) and recipe_of(_spec(subject), varies) == recipe


def _spec(subject: Subject) -> dict[str, Any]:
    return subject.cell.rows[0].spec


def _covers(recipe: str, task: str) -> bool:
    base = RECIPES.get(recipe.split(" but ")[0])
    return base is not None and base.part_of(task) is not None


def _numbers(claim: Claim, counted: Tally, cells: Sequence[CellCheck], trained: bool) -> str:
    """How many cells agree, which comparisons fail and which come nearest to it, and what else is
    known or missing.
    """
    failing = [cell.check for cell in cells if cell.check.holds is False]
    holding = sorted((cell.check for cell in cells if cell.check.holds), key=_margin)
    told = join(check.told for check in failing)
    if not failing or counted.outcome == "reproduced":
        told = join(check.told for check in holding[:1])
    elif counted.outcome == "holds in part":
        told = f"fails: {failing[0].told}; holds: {holding[0].told}"
    count = counted.counted if counted.cells > 1 else ""
    if counted.outcome == "fails in part":
        count = f"{counted.counted}, too few to contradict it"
    parts = [f"{count}: {told}" if count and told else told or count]
    if counted.outcome in OPEN_OUTCOMES:
        waiting = [leaf for cell in cells for leaf in cell.check.leaves if leaf.holds is None]
        # Cells to train are listed elsewhere with their cost; list here what else is missing.
        settled = [leaf for leaf in waiting if not leaf.wants]
        known = join((leaf.text for leaf in (settled if told else waiting)), MOST_OPEN)
        lacks = join(leaf.lacks for leaf in settled)
        if not trained:
            lacks = f"any run of this recipe in its setting, {claim.setting}"
        parts += [f"undecided: {known}" if told else known] if known else []
        parts += [f"missing: {lacks}"] if lacks else []
    return "; ".join(filter(None, [*parts, _models_left(claim, cells)]))


def _models_left(claim: Claim, cells: Sequence[CellCheck]) -> str:
    """The models of a claim without named cells of which no cell is decided, if others are."""
    decided = {cell.role for cell in cells if cell.check.holds is not None}
    left = [role.name for role in claim.models if role not in decided]
    return f"no cell decides on {', '.join(left)}" if decided and left else ""


def _margin(check: Check) -> float:
    return check.margin


def _wants(cells: Sequence[CellCheck]) -> tuple[Want, ...]:
    found = (want for cell in cells if cell.check.holds is None for want in cell.check.wants)
    return tuple(first_of_each(want for want in found if want.runs))


def _reduced(claim: Claim, subjects: Sequence[Subject], curves: Curves, kept: Kept) -> str:
    """The rule applied to all rows: the result in the setting with the most runs, and how many
    other settings agree with the claim.
    """
    comparable = find_groups(subjects, claim.roles, curves, strict=False, kept=kept)
    tried = [(group, together(claim.coverage, claim.rule(group))) for group in comparable]
    found = sorted(
        ((g, c) for g, c in tried if c.holds is not None), key=lambda entry: -entry[0].runs
    )
    if not found:
        return ""
    group, check = found[0]
    rest = [c.holds for _, c in found[1:]]
    others = f"; holds in {sum(map(bool, rest))} of {len(rest)} other settings" if rest else ""
    words = "holds" if check.holds else "does not hold"
    return f"{words} ({_scale(group)}: {check.told}{others})"


def _scale(group: Group) -> str:
    """How the rows differ from the study. Sizes and widths are named with the numbers."""
    short = reductions(group.recipe)
    sizes = {size_text(s.size) for own in group.subjects.values() for s in own if any(s.size)}
    if not short:
        return "the study's scale, but fewer cells, seeds or rates, or another recipe"
    return ", ".join([*(sorted(sizes) if len(sizes) == 1 else []), *short])


def _remark(claim: Claim, choices: str, others: str, reduced: str) -> str:
    at_reduced_scale = f"At reduced scale: {reduced}." if reduced else ""
    told = [choices, others, at_reduced_scale, claim.contradiction, claim.caveat]
    return " ".join(filter(None, told))


def _with_choices(group: Group, decided: bool) -> str:
    return f"Decided with {join(group.choices)}." if group.choices and decided else ""


def _depends_on_variant(group: Group, cells: Sequence[CellCheck]) -> bool:
    """Whether a decided cell is of the model that the group varies, if any cell is."""
    of_variant = [cell.check.holds for cell in cells if cell.role == group.varied]
    return group.varied is None or not of_variant or any(x is not None for x in of_variant)


def _otherwise(group: Group, counted: Tally, first: Tally) -> str:
    """The verdict of another decided group, compared with that of the first."""
    same = "the same" if counted.outcome == first.outcome else counted.words
    return f"With {join(group.choices) or 'another data seed'}: {same}."
