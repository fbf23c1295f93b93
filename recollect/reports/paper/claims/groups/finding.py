"""Which subjects are compared: groups of one recipe, with one variant of each model."""

from collections.abc import Sequence
from dataclasses import replace

from recollect.analysis import Curves
from recollect.analysis.settings import canonical
from recollect.analysis.wording import setting_text
from recollect.reports.paper.claims.groups.group import Group, Kept
from recollect.reports.paper.claims.groups.subjects import Subject
from recollect.reports.paper.claims.roles import OPEN_OPTIONS, Role
from recollect.reports.paper.study import open_choices


def find_groups(
    subjects: Sequence[Subject],
    roles: Sequence[Role],
    curves: Curves,
    strict: bool,
    kept: Kept | None = None,
) -> list[Group]:
    """The groups that can be compared, ordered by increasing number of deviations.

    For each recipe there is a group with the plainest variant of every role. If `strict`, there is
    also one for every other trained variant of one role, with the plainest ones of the others.
    """
    by_recipe: dict[str, list[Subject]] = {}
    for subject in subjects:
        by_recipe.setdefault(canonical(subject.recipe), []).append(subject)
    found = [
        replace(group, kept=kept or {})
        for own in by_recipe.values()
        for group in _variants(own, roles, curves, strict)
    ]
    return sorted(found, key=lambda group: (len(group.choices), -group.runs))


def _variants(
    subjects: Sequence[Subject], roles: Sequence[Role], curves: Curves, strict: bool
) -> list[Group]:
    by_role = {role: _by_variant(role, subjects, strict) for role in roles}
    by_role = {role: variants for role, variants in by_role.items() if variants}
    if not by_role:
        return []
    plainest = {role: min(variants, key=len) for role, variants in by_role.items()}
    chosen: list[tuple[Role | None, dict[Role, tuple[str, ...]]]] = [(None, plainest)]
    if strict:
        chosen += [
            (role, {**plainest, role: variant})
            for role in by_role
            for variant, own in by_role[role].items()
            if variant != plainest[role] and any(one.cell.scored_runs for one in own)
        ]
    common = [] if strict else open_choices(subjects[0].recipe)
    return [
        Group(
            subjects={role: by_role[role][variant] for role, variant in choice.items()},
            curves=curves,
            strict=strict,
            recipe=subjects[0].recipe,
            choices=(
                *common,
                *(f"{role.name}: {text}" for role, variant in choice.items() for text in variant),
            ),
            varied=varied,
        )
        for varied, choice in chosen
    ]


def _by_variant(
    role: Role, subjects: Sequence[Subject], strict: bool
) -> dict[tuple[str, ...], tuple[Subject, ...]]:
    """The subjects that fit the role, by variant.

    In a strict group all subjects share one recipe, which fixes everything about a model except
    the options of its mixer; only those options make a variant there.
    """
    found: dict[tuple[str, ...], list[Subject]] = {}
    for subject in subjects:
        if role.fits(subject.flat):
            variant = role.variant(subject.flat)
            if strict:
                variant = {key: v for key, v in variant.items() if key.startswith("model.mixer.")}
            if not strict or variant.keys() <= OPEN_OPTIONS:
                words = sorted(setting_text(key, value) for key, value in variant.items())
                found.setdefault(tuple(words), []).append(subject)
    return {variant: tuple(own) for variant, own in found.items()}
