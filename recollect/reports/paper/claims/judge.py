"""From rows to verdicts: each claim's rule on rows of the study's own scale; where there are none,
on what there is, as a remark.
"""

from collections.abc import Iterable, Sequence

from recollect.analysis import Curves
from recollect.reports.paper.claims.checks import Check, join
from recollect.reports.paper.claims.claim import Claim, Verdict
from recollect.reports.paper.claims.groups import (
    Group,
    Subject,
    find_groups,
    find_subjects,
    size_text,
)
from recollect.reports.paper.study import reductions
from recollect.rows import RunRow

NO_ROWS = "any run at the study's scale"


def judge(claims: Sequence[Claim], rows: Iterable[RunRow], curves: Curves) -> list[Verdict]:
    """One verdict per claim, in their order."""
    subjects = find_subjects(rows)
    return [_judge_one(claim, subjects, curves) for claim in claims]


def _judge_one(claim: Claim, subjects: Sequence[Subject], curves: Curves) -> Verdict:
    subjects = [subject for subject in subjects if subject.flat.get("task.name") == claim.task]
    fitting = [
        subject for subject in subjects if claim.fits(subject) and not reductions(subject.recipe)
    ]
    comparable = find_groups(fitting, claim.roles, curves, strict=True)
    strict = [(group, claim.rule(group)) for group in comparable]
    decided = [(group, check) for group, check in strict if check.holds is not None]
    if decided:
        group, check = decided[0]
        others = [_otherwise(*other, check) for other in decided[1:]]
        return Verdict(
            claim=claim,
            verdict="reproduced" if check.holds else "not reproduced",
            numbers=check.told,
            what_to_run="",
            remark=_remark(claim, _with_choices(group), join(others)),
            checks=check.leaves,
        )
    open_check = strict[0][1] if strict else Check(None, "", NO_ROWS)
    lacks = f"missing: {open_check.lacks or NO_ROWS}"
    reduced, reduced_checks = _reduced(claim, subjects, curves)
    return Verdict(
        claim=claim,
        verdict="not enough data",
        numbers=f"{open_check.told}; {lacks}" if open_check.text else lacks,
        what_to_run=claim.what_to_run,
        remark=_remark(claim, f"At reduced scale: {reduced}." if reduced else ""),
        reduced=reduced,
        checks=reduced_checks or open_check.leaves,
    )


def _reduced(
    claim: Claim, subjects: Sequence[Subject], curves: Curves
) -> tuple[str, tuple[Check, ...]]:
    """The same rule on what there is: in the setting with most runs, and how the others went."""
    comparable = find_groups(subjects, claim.roles, curves, strict=False)
    tried = [(group, claim.rule(group)) for group in comparable]
    found = sorted(
        ((g, c) for g, c in tried if c.holds is not None), key=lambda entry: -entry[0].runs
    )
    if not found:
        return "", ()
    group, check = found[0]
    rest = [c.holds for _, c in found[1:]]
    others = f"; holds in {sum(map(bool, rest))} of {len(rest)} other settings" if rest else ""
    words = "holds" if check.holds else "does not hold"
    return f"{words} ({_scale(group)}: {check.told}{others})", check.leaves


def _scale(group: Group) -> str:
    """How the rows differ from the study; the numbers name sizes and widths."""
    short = reductions(group.recipe)
    sizes = {size_text(s.size) for own in group.subjects.values() for s in own if any(s.size)}
    if not short:
        return "the study's recipe, but fewer cells, seeds or rates"
    return ", ".join([*(sorted(sizes) if len(sizes) == 1 else []), *short])


def _remark(claim: Claim, *texts: str) -> str:
    return " ".join(filter(None, [*texts, claim.contradiction, claim.caveat]))


def _with_choices(group: Group) -> str:
    return f"Decided with {join(group.choices)}." if group.choices else ""


def _otherwise(group: Group, check: Check, first: Check) -> str:
    """What a second decided group says."""
    same = "the same" if check.holds == first.holds else "holds" if check.holds else "does not hold"
    return f"With {join(group.choices) or 'another data seed'}: {same}."
