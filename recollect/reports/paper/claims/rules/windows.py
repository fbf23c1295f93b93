"""How wide the range of learning rates is: attention's against that of the recurrent models (C2,
C3, C15, C17, C22, C24).
"""

from recollect.reports.paper.claims.checks import Check, at_least, at_most, difference, every, join
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.floors import floor
from recollect.reports.paper.claims.groups import Group, Panel, Subject, subject_text
from recollect.reports.paper.claims.measures import search_lacks
from recollect.reports.paper.claims.roles import (
    ATTENTION_2,
    DEEP_ATTENTION,
    DEEP_MAMBA,
    DELTA_NET_1,
    HYENA_2,
    MAMBA2_1,
    MAMBA_1,
    MAMBA_2,
    MAMBA_2_NO_CONV,
    Role,
)
from recollect.reports.paper.claims.rules.ablation import MAMBA_WITHOUT_CONV
from recollect.reports.paper.claims.thresholds import (
    NARROWER,
    NEAR_FLOOR,
    NO_FURTHER,
    ORDER_SLACK,
    SAME_WINDOW,
    WIDE,
    WINDOW,
)
from recollect.reports.paper.study import SIZES

STUDY_DEPTH = 12
DELTA_NET_MOST = 256  # "the maximum size supported by the DeltaNet implementation"
ATTENTION_AND_MAMBA = """'sweep.model.mixer=["attention","mamba"]'"""
UNSTATED = (
    "The study does not say which length, pairs and width its figure shows; every one of A.2 that "
    "was searched must agree."
)


@claim(
    "C2",
    "2-layer attention tolerates a wide range of learning rates",
    setting="any (length, pairs) and width of A.2, 2 layers",
    figure="fig1",
    roles=(ATTENTION_2,),
    thresholds=(WINDOW, WIDE),
    runs=("fig1",),
    caveat=UNSTATED,
)
def attention_is_wide(group: Group) -> Check:
    """Wherever it was searched, attention's window has at least WIDE decades."""
    panels = group.panels([ATTENTION_2])
    return every(
        (at_least(group.window(ATTENTION_2, panel), WIDE) for panel in panels),
        lacks="2-layer attention",
    )


@claim(
    "C3",
    "2-layer Mamba and Hyena work in a narrow window only, and are near zero at most other rates",
    setting="any (length, pairs) and width of A.2 that the model solves, 2 layers",
    figure="fig1",
    roles=(ATTENTION_2, MAMBA_2, HYENA_2),
    thresholds=(WINDOW, NARROWER, NEAR_FLOOR),
    runs=("fig1",),
    caveat=UNSTATED,
)
def recurrent_is_narrow(group: Group) -> Check:
    """Both models: wherever the model solves the task, its window is narrower than attention's by
    NARROWER or more (decades), and at most rates outside of it the score is within NEAR_FLOOR of
    what position alone gives.
    """
    checks = [
        part(group, role)
        for role in group.roles((MAMBA_2, HYENA_2))
        for part in (_narrower, _low_outside)
    ]
    return every(checks, text=_told(checks), lacks="2-layer mamba and hyena")


@claim(
    "C15",
    "With 12 layers Mamba's window is still narrow and attention's wide, and accuracy is no "
    "better than with 2",
    setting="any (length, pairs) and width of A.2, 12 against 2 layers",
    figure="fig13",
    roles=(DEEP_ATTENTION, DEEP_MAMBA, ATTENTION_2, MAMBA_2),
    thresholds=(WINDOW, NARROWER, SAME_WINDOW, NO_FURTHER),
    runs=("fig13", f"fig1 --set {ATTENTION_AND_MAMBA}"),
    fits=lambda subject: subject.size in SIZES and subject.depth in (2, STUDY_DEPTH),
    caveat="The study does not say which length, pairs and width its figure shows.",
)
def depth_changes_nothing(group: Group) -> Check:
    """At each size and width that they solve: Mamba's window with 12 layers is narrower than
    attention's by NARROWER or more (decades) and within SAME_WINDOW of its own with 2; neither
    model's best score is more than NO_FURTHER above that with 2 layers.
    """
    roles = (DEEP_ATTENTION, DEEP_MAMBA, MAMBA_2)
    panels = _with_windows(group, group.panels(roles[:2]), roles)
    return every(
        (_same_as_shallow(group, panel) for panel in panels),
        lacks="attention and mamba with 12 layers that solve it",
    )


@claim(
    "C22",
    "Without its convolution Mamba keeps the narrow window",
    setting="any (length, pairs) and width of A.2; the depth is not stated, tested with 2 layers",
    figure="table2",
    roles=(ATTENTION_2, MAMBA_2_NO_CONV),
    thresholds=(WINDOW, NARROWER),
    runs=(
        f"table2 --set {MAMBA_WITHOUT_CONV} --set model.depth=2",
        "fig2 --set model.mixer=attention --set model.width=256 --set task.length=512 --set "
        "task.pairs=64",
    ),
    caveat="The study says so in a sentence, without a figure.",
)
def narrow_without_convolution(group: Group) -> Check:
    """Wherever both solve the task, the window of 2-layer Mamba without convolution is narrower
    than attention's by NARROWER or more (decades).
    """
    return _narrower(group, MAMBA_2_NO_CONV)


@claim(
    "C24",
    "1-layer DeltaNet is as robust as a transformer; Mamba2 only a little more so than Mamba",
    setting="any (length, pairs) of A.2, widths up to 256, 1 layer; attention with 2",
    figure="fig7",
    roles=(DELTA_NET_1, MAMBA2_1, MAMBA_1, ATTENTION_2),
    thresholds=(WINDOW, SAME_WINDOW, ORDER_SLACK),
    runs=("fig7", "fig1 --set model.mixer=attention --set 'sweep.model.width=[64,128,256]'"),
    fits=lambda subject: subject.size in SIZES and subject.width <= DELTA_NET_MOST,
    caveat="The study does not say which length and pairs its figure shows.",
)
def delta_net_is_robust(group: Group) -> Check:
    """At each size and width that all solve: DeltaNet's window is more than SAME_WINDOW wider than
    Mamba2's and not more than SAME_WINDOW narrower than 2-layer attention's; Mamba2's is not
    narrower than Mamba's (by ORDER_SLACK).
    """
    panels = _with_windows(group, group.panels([DELTA_NET_1]), (DELTA_NET_1, MAMBA2_1, MAMBA_1))
    return every(
        (_in_order(group, panel) for panel in panels),
        lacks="1-layer delta_net, mamba2 and mamba that solve it",
    )


def _same_as_shallow(group: Group, panel: Panel) -> Check:
    attention, deep, shallow = (
        group.window(role, panel) for role in (DEEP_ATTENTION, DEEP_MAMBA, MAMBA_2)
    )
    change = difference(deep, shallow)
    gains = [
        difference(group.score(deeper, panel), group.score(two, panel))
        for deeper, two in ((DEEP_ATTENTION, ATTENTION_2), (DEEP_MAMBA, MAMBA_2))
    ]
    checks = [
        at_least(difference(attention, deep), NARROWER),
        every([at_most(change, SAME_WINDOW), at_least(change, -SAME_WINDOW)]),
        *(at_most(gain, NO_FURTHER) for gain in gains),
    ]
    return every(checks, text=_told(checks))


def _in_order(group: Group, panel: Panel) -> Check:
    delta, two, one, attention = (
        group.window(role, panel) for role in (DELTA_NET_1, MAMBA2_1, MAMBA_1, ATTENTION_2)
    )
    wanted = group.roles((MAMBA2_1, MAMBA_1, ATTENTION_2))
    checks = []
    if MAMBA2_1 in wanted:
        checks.append(at_least(difference(delta, two), SAME_WINDOW))
    if MAMBA2_1 in wanted and MAMBA_1 in wanted:
        checks.append(at_least(difference(two, one), -ORDER_SLACK))
    if ATTENTION_2 in wanted:
        checks.append(at_least(difference(delta, attention), -SAME_WINDOW))
    return every(checks, lacks="1-layer mamba2, mamba, and 2-layer attention")


def _told(checks: list[Check]) -> str:
    """Decades and scores have no common scale to say which is tightest: what fails, else all."""
    failed = [check.text for check in checks if check.holds is False]
    return join(failed or [check.text for check in checks if check.holds], limit=len(checks))


def _narrower(group: Group, role: Role) -> Check:
    """Than 2-layer attention, wherever the role solves the task:
    elsewhere it has no window, which says nothing.
    """
    panels = [Panel(subject.size, subject.width) for subject in _solving(group, role)]
    checks = [
        at_least(difference(group.window(ATTENTION_2, panel), group.window(role, panel)), NARROWER)
        for panel in panels
    ]
    return every(checks, lacks=f"{role.name} in a setting where it reaches {WINDOW:g}")


def _with_windows(group: Group, panels: list[Panel], roles: tuple[Role, ...]) -> list[Panel]:
    """Without those where one of the roles was searched and solves nothing:
    a window that is not there says nothing.
    """

    def hopeless(role: Role, panel: Panel) -> bool:
        subject = group.find(role, **panel._asdict())
        best = group.trusted_cell(subject).best if subject else None
        if subject is None or best is None or best.mean >= WINDOW:
            return False
        return not (group.strict and search_lacks(group.trusted_cell(subject)))

    return [panel for panel in panels if not any(hopeless(role, panel) for role in roles)]


def _low_outside(group: Group, role: Role) -> Check:
    checks = []
    for subject in _solving(group, role):
        cell, limit = group.trusted_cell(subject), floor(subject) + NEAR_FLOOR
        name = subject_text(role, subject)
        outside = [rate.mean for rate in cell.scored_rates if rate.mean < WINDOW]
        low = sum(score <= limit for score in outside)
        text = f"{name} below {limit:.2f} at {low} of {len(outside)} rates outside its window"
        if outside:
            checks.append(Check(low * 2 > len(outside), text, margin=low / len(outside) - 0.5))
        else:
            checks.append(Check(None, text, f"{name}: rates outside its window"))
    return every(checks, lacks=f"{role.name} in a setting where it reaches {WINDOW:g}")


def _solving(group: Group, role: Role) -> list[Subject]:
    found = [
        (subject, group.trusted_cell(subject).best) for subject in group.subjects.get(role, ())
    ]
    return [subject for subject, best in found if best is not None and best.mean >= WINDOW]
