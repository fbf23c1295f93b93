"""From rows to verdicts: each claim's rule, on the study's own scale if the rows have it, else on
what there is as a remark.
"""

from collections.abc import Iterable, Sequence

from recollect.reports.paper.claims.checks import Check, join
from recollect.reports.paper.claims.claim import Claim, Verdict
from recollect.reports.paper.claims.groups import Curves, Group, Subject, gather, groups, size_text
from recollect.reports.paper.claims.study import reductions
from recollect.rows import RunRow

NO_ROWS = "any run at the study's scale"


def judge(claims: Sequence[Claim], rows: Iterable[RunRow], curves: Curves) -> list[Verdict]:
    """One verdict per claim, in their order."""
    subjects = gather(rows)
    return [_judge_one(claim, subjects, curves) for claim in claims]


def _judge_one(claim: Claim, subjects: Sequence[Subject], curves: Curves) -> Verdict:
    subjects = [subject for subject in subjects if subject.flat.get("task.name") == claim.task]
    fitting = [
        subject for subject in subjects if claim.fits(subject) and not reductions(subject.recipe)
    ]
    strict = [
        (group, claim.rule(group)) for group in groups(fitting, claim.roles, curves, strict=True)
    ]
    decided = [(group, check) for group, check in strict if check.holds is not None]
    if decided:
        group, check = decided[0]
        others = [_otherwise(*other, check) for other in decided[1:]]
        return Verdict(
            claim=claim,
            verdict="reproduced" if check.holds else "not reproduced",
            numbers=check.told,
            what_to_run="",
            figure=claim.figure,
            remark=" ".join(
                filter(
                    None, [_with_choices(group), join(others), claim.contradiction, claim.caveat]
                )
            ),
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
        figure=claim.figure,
        remark=" ".join(
            filter(
                None,
                [
                    f"At reduced scale: {reduced}." if reduced else "",
                    claim.contradiction,
                    claim.caveat,
                ],
            )
        ),
        reduced=reduced,
        checks=reduced_checks or open_check.leaves,
    )


def _reduced(
    claim: Claim, subjects: Sequence[Subject], curves: Curves
) -> tuple[str, tuple[Check, ...]]:
    """The same rule on what there is: in the setting with most runs, and how the others went."""
    tried = [
        (group, claim.rule(group)) for group in groups(subjects, claim.roles, curves, strict=False)
    ]
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
    """In what the rows differ from the study; sizes and widths stand with the numbers."""
    short = reductions(group.recipe)
    sizes = {size_text(s.size) for own in group.subjects.values() for s in own if any(s.size)}
    if not short:
        return "the study's recipe, but fewer cells, seeds or rates"
    return ", ".join([*(sorted(sizes) if len(sizes) == 1 else []), *short])


def _with_choices(group: Group) -> str:
    return f"Decided with {join(group.choices)}." if group.choices else ""


def _otherwise(group: Group, check: Check, first: Check) -> str:
    """A second decided group, told only where it says something else or why it agrees."""
    same = "the same" if check.holds == first.holds else "holds" if check.holds else "does not hold"
    return f"With {join(group.choices) or 'another data seed'}: {same}."
