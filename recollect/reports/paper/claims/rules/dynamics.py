"""What the curves of 1-layer models look like:
smooth, or with a sudden change of the loss (C18, C19).
"""

from recollect.analysis import Bump, bumps, plateaus
from recollect.reports.paper.claims.checks import Check, at_least, every, join
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.groups import Group, Subject, subject_text
from recollect.reports.paper.claims.roles import ATTENTION_1, HYENA_1, MAMBA_1, Role
from recollect.reports.paper.claims.thresholds import LEAST_EVALUATIONS, SOLVED
from recollect.reports.paper.study import DYNAMICS_SIZE

SIZE_NOTE = "(256,16) is the figure's title in earlier versions; this one lost it."


def _at_dynamics_size(subject: Subject) -> bool:
    return subject.size == DYNAMICS_SIZE


@claim(
    "C18",
    "1-layer Hyena and Mamba learn smoothly to the top; attention's loss changes suddenly without "
    "a gain in accuracy",
    setting="(256,16), 1 layer, best rate; the narrowest Hyena and Mamba that solve it, the "
    "widest attention",
    figure="fig6",
    roles=(HYENA_1, MAMBA_1, ATTENTION_1),
    thresholds=(SOLVED, LEAST_EVALUATIONS),
    runs=("fig6",),
    fits=_at_dynamics_size,
    caveat=f"{SIZE_NOTE} The text of section 6 sees a bump in Mamba too: C19.",
)
def only_attention_bumps(group: Group) -> Check:
    """Hyena and Mamba reach SOLVED and most of their seeds show no sudden loss change without a
    gain; most seeds of attention show one. Sudden: analysis/curves.py; with a gain: the score
    rises by a tenth above chance.
    """
    checks = []
    for role in group.roles((HYENA_1, MAMBA_1)):
        subject = _shown(group, role)
        if subject is None:
            checks.append(Check(None, "", f"{role.name} that solves it"))
        else:
            score = group.score(role, size=subject.size, width=subject.width)
            checks += [
                at_least(score, SOLVED),
                _most_seeds(group, role, subject, without_gain=True, wanted=False),
            ]
    attention = _shown(group, ATTENTION_1)
    if attention is None:
        return Check(None, "", "1-layer attention with its curves")
    checks.append(_most_seeds(group, ATTENTION_1, attention, without_gain=True, wanted=True))
    told = [check.text for check in checks if check.holds is not None and "seeds" in check.text]
    return every(
        checks if len(checks) > 1 else [],
        text=join(told),
        lacks="1-layer hyena and mamba that solve it",
    )


@claim(
    "C19",
    "1-layer Mamba's loss has a significant bump (section 6)",
    setting="(256,16), 1 layer, best rate, the narrowest Mamba that solves it",
    figure="fig6",
    roles=(MAMBA_1,),
    thresholds=(SOLVED, LEAST_EVALUATIONS),
    runs=("fig6",),
    fits=_at_dynamics_size,
    contradiction="The study contradicts itself: its text reports a bump, the caption of Fig. 6 "
    "calls Mamba's curve smooth. "
    f'Judged is the text; "not reproduced" is the caption\'s reading. {SIZE_NOTE}',
)
def mamba_bumps(group: Group) -> Check:
    """Most seeds show a sudden change of the loss, with or without a gain in accuracy."""
    subject = _shown(group, MAMBA_1)
    if subject is None:
        return Check(None, "", "1-layer mamba that solves it")
    return _most_seeds(group, MAMBA_1, subject, without_gain=False, wanted=True)


def _shown(group: Group, role: Role) -> Subject | None:
    """Whose curves the figure shows: the widest attention, else the narrowest model that solves the
    task; of several that differ in their evaluations, the one with most.
    """
    own = [(subject, group.trusted_cell(subject).best) for subject in group.subjects.get(role, ())]
    if role is ATTENTION_1:
        kept = [subject for subject, best in own if best]
        return max(kept, key=lambda s: (s.width, _evaluations(s), s.cell.scored_runs), default=None)
    kept = [subject for subject, best in own if best and best.mean >= SOLVED]
    return min(kept, key=lambda s: (s.width, -_evaluations(s), -s.cell.scored_runs), default=None)


def _evaluations(subject: Subject) -> int:
    return int(subject.flat.get("train.evaluations", 0))


def _most_seeds(
    group: Group, role: Role, subject: Subject, without_gain: bool, wanted: bool
) -> Check:
    """Whether more than half of the seeds at the best rate have such a bump (`wanted`),
    or have none.
    """
    best, name = group.trusted_cell(subject).best, subject_text(role, subject)
    assert best is not None
    curves = [(row, group.curves.get(row.run_id, ())) for row in best.scored]
    found = [bumps(curve, row.score_name, row.chance) for row, curve in curves if curve]
    if not found:
        return Check(None, "", f"{name}: its curves")
    if group.strict and _evaluations(subject) < LEAST_EVALUATIONS:
        return Check(None, "", f"{name}: {LEAST_EVALUATIONS:g} evaluations or more")
    with_bump = [[bump for bump in own if not (without_gain and bump.gained)] for own in found]
    count = sum(map(bool, with_bump))
    kind = "a bump without gain" if without_gain else "a bump"
    first = next((own[0] for own in with_bump if own), None)
    text = f"{name}: {count} of {len(found)} seeds show {kind}{_told(first, subject)}"
    holds = count * 2 > len(found) if wanted else count * 2 < len(found)
    return Check(holds, text, margin=abs(count / len(found) - 0.5) * (1 if holds else -1))


def _told(bump: Bump | None, subject: Subject) -> str:
    """The first bump, and the level of loss nearest to where it ends."""
    if bump is None:
        return ""
    levels = plateaus(subject.task)
    near = min(levels, key=lambda level: abs(levels[level] - bump.loss_after), default="")
    level = f" ({near} = {levels[near]:.2f})" if near else ""
    return (
        f", the first at step {bump.end_step}: loss {bump.loss_before:.2f} to "
        f"{bump.loss_after:.2f}{level}, score {bump.score_before:.2f} to {bump.score_after:.2f}"
    )
