"""The width of the range of learning rates: attention against recurrent models (C2, C3, C15, C22,
C24, C31).
"""

from collections.abc import Iterable
from dataclasses import replace

from recollect.analysis import count_text
from recollect.reports.paper.claims.checks import (
    Check,
    at_least,
    at_most,
    clearly_above,
    difference,
    every,
    join,
    not_above,
    told_all,
)
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.coverage import UNNAMED, CellCheck, at_panel
from recollect.reports.paper.claims.floors import floor, floor_text
from recollect.reports.paper.claims.groups import Group, Panel, subject_text
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
    STUDY_DEPTH,
    Role,
)
from recollect.reports.paper.claims.rules.ablation import MAMBA_WITHOUT_CONV
from recollect.reports.paper.claims.thresholds import (
    NARROW,
    NARROWER,
    NEAR_FLOOR,
    NO_FURTHER,
    NOISES,
    ORDER_SLACK,
    SAME_WINDOW,
    WIDE,
    WINDOW,
)
from recollect.reports.paper.study import SIZES

DELTA_NET_MOST = 256  # "the maximum size supported by the DeltaNet implementation"
ATTENTION_AND_MAMBA = """'sweep.model.mixer=["attention","mamba"]'"""
# The cells to try if the study names none: the smallest size and the size of Fig. 6. Hyena solves
# little at small widths, so its width is above both lengths.
SMALL, MIDDLE = Panel((64, 4), 64), Panel((256, 16), 128)
WIDER = (Panel((64, 4), 512), Panel((256, 16), 512))
TO_TRY = {MAMBA_2: (SMALL, MIDDLE), HYENA_2: WIDER}
HYENA_SOLVES = """fig2 --set 'sweep.model.mixer=["attention","hyena"]' --set model.width=512"""
UNSTATED = "The study does not say which length, pairs and width its figure shows."


@claim(
    "C2",
    "2-layer attention tolerates a wide range of learning rates",
    setting="any (length, pairs) and width of A.2, 2 layers",
    figure="fig1",
    roles=(ATTENTION_2,),
    thresholds=(WINDOW, WIDE),
    runs=("fig1 --set model.mixer=attention",),
    coverage=UNNAMED,
    models=(ATTENTION_2,),
    caveat=UNSTATED,
)
def attention_is_wide(group: Group) -> list[CellCheck]:
    """In each cell that was searched, attention's window has at least WIDE decades."""
    return [
        at_panel(panel, at_least(group.window(ATTENTION_2, panel), WIDE), ATTENTION_2)
        for panel in _panels(group, [ATTENTION_2], (SMALL, MIDDLE))
    ]


@claim(
    "C3",
    "2-layer Mamba and Hyena work in a narrow window only, and are near zero at most other rates",
    setting="any (length, pairs) and width of A.2 that the model solves, 2 layers",
    figure="fig1",
    roles=(ATTENTION_2, MAMBA_2, HYENA_2),
    thresholds=(WINDOW, NARROW, NARROWER, NEAR_FLOOR),
    runs=(
        "fig1",
        f"{HYENA_SOLVES} --set task.length=64 --set task.pairs=4",
        f"{HYENA_SOLVES} --set task.length=256 --set task.pairs=16",
    ),
    coverage=UNNAMED,
    models=(MAMBA_2, HYENA_2),
    caveat=UNSTATED,
)
def recurrent_is_narrow(group: Group) -> list[CellCheck]:
    """In each cell that the model solves, its window has NARROW decades or fewer, and NARROWER or
    more fewer than attention's. At more than half of the rates outside of it the score is within
    NEAR_FLOOR of what position alone gives; a diverged run counts as 0.
    """
    cells = []
    for role in group.roles((MAMBA_2, HYENA_2)):
        for panel in _panels(group, [role], TO_TRY[role]):
            solves = group.reaches(role, panel)
            if solves is False:
                cells.append(at_panel(panel, unsolved(group, role, panel), role))
                continue
            if solves is None and group.strict:  # settle this before requesting its window
                score = at_least(group.score(role, panel), group.tau)
                cells.append(at_panel(panel, score, role))
                continue
            own, attention = group.window(role, panel), group.window(ATTENTION_2, panel)
            apart = replace(difference(attention, own), text=attention.text)
            checks = [
                at_most(own, NARROW),
                at_least(apart, NARROWER),
                _low_outside(group, role, panel),
            ]
            cells.append(at_panel(panel, every(checks, text=told_all(checks)), role))
    return cells


@claim(
    "C15",
    "With 12 layers Mamba's window is still narrow and attention's wide, and accuracy is no "
    "better than with 2",
    setting="any (length, pairs) and width of A.2, 12 against 2 layers",
    figure="fig13",
    roles=(DEEP_ATTENTION, DEEP_MAMBA, ATTENTION_2, MAMBA_2),
    thresholds=(WINDOW, NARROW, WIDE, SAME_WINDOW, NO_FURTHER, NOISES),
    runs=("fig13", f"fig1 --set {ATTENTION_AND_MAMBA}"),
    coverage=UNNAMED,
    fits=lambda subject: subject.size in SIZES and subject.depth in (2, STUDY_DEPTH),
    caveat=UNSTATED,
)
def depth_changes_nothing(group: Group) -> list[CellCheck]:
    """In each cell that Mamba solves: with 12 layers its window has NARROW decades or fewer, and
    differs by at most SAME_WINDOW from its window with 2; attention's has WIDE decades or more.
    Neither model's best score is more than NO_FURTHER above that with 2 layers, NOISES standard
    errors allowed for.
    """
    return [
        at_panel(panel, _same_as_shallow(group, panel))
        for panel in _panels(group, [DEEP_ATTENTION, DEEP_MAMBA], (SMALL, MIDDLE))
        if _solved_by(group, panel, (DEEP_MAMBA, MAMBA_2))
    ]


@claim(
    "C22",
    "Without its convolution Mamba keeps the narrow window",
    setting="any (length, pairs) and width of A.2; the depth is not stated, tested with 2 layers",
    figure="table2",
    roles=(ATTENTION_2, MAMBA_2_NO_CONV),
    thresholds=(WINDOW, NARROW, NARROWER),
    runs=(
        f"fig1 --set {MAMBA_WITHOUT_CONV}",
        "fig1 --set model.mixer=attention",
    ),
    coverage=UNNAMED,
    models=(MAMBA_2_NO_CONV,),
    caveat="The study says so in a sentence, without a figure. Whether Mamba's window is narrow "
    "with its convolution is C3.",
)
def narrow_without_convolution(group: Group) -> list[CellCheck]:
    """In each cell that it solves, the window of 2-layer Mamba without convolution has NARROW
    decades or fewer, and NARROWER or more fewer than attention's.
    """
    return [
        at_panel(panel, _narrower(group, MAMBA_2_NO_CONV, panel), MAMBA_2_NO_CONV)
        for panel in _panels(group, [MAMBA_2_NO_CONV], (SMALL, MIDDLE))
        if _solved_by(group, panel, (MAMBA_2_NO_CONV,))
    ]


@claim(
    "C24",
    "1-layer DeltaNet is as robust as a transformer; Mamba2 only a little more so than Mamba",
    setting="any (length, pairs) of A.2, widths up to 256, 1 layer; attention with 2",
    figure="fig7",
    roles=(DELTA_NET_1, MAMBA2_1, MAMBA_1, ATTENTION_2),
    thresholds=(WINDOW, SAME_WINDOW, ORDER_SLACK),
    runs=("fig7", "fig1 --set model.mixer=attention --set 'sweep.model.width=[64,128,256]'"),
    coverage=UNNAMED,
    fits=lambda subject: subject.size in SIZES and subject.width <= DELTA_NET_MOST,
    caveat="The study does not say which length and pairs its figure shows.",
)
def delta_net_is_robust(group: Group) -> list[CellCheck]:
    """In each cell that all three solve: DeltaNet's window is wider than Mamba2's by SAME_WINDOW
    decades or more, and not narrower than 2-layer attention's by more than SAME_WINDOW. Mamba2's is
    wider than Mamba's by ORDER_SLACK to SAME_WINDOW; if it is narrower by ORDER_SLACK or more the
    cell fails, and a difference in between says nothing.
    """
    roles = (DELTA_NET_1, MAMBA2_1, MAMBA_1)
    return [
        at_panel(panel, _in_order(group, panel))
        for panel in _panels(group, [DELTA_NET_1], (SMALL, MIDDLE))
        if _solved_by(group, panel, roles)
    ]


@claim(
    "C31",
    "A larger state makes the window wider: 1-layer Mamba2 and DeltaNet against Mamba",
    setting="any (length, pairs) of A.2, widths up to 256, 1 layer",
    figure="fig7",
    roles=(DELTA_NET_1, MAMBA2_1, MAMBA_1),
    thresholds=(WINDOW, ORDER_SLACK),
    runs=("fig7",),
    coverage=UNNAMED,
    models=(MAMBA2_1, DELTA_NET_1),
    fits=lambda subject: subject.size in SIZES and subject.width <= DELTA_NET_MOST,
    caveat='The caption of Fig. 7: "having a larger hidden state marginally helps stability, as in '
    'Mamba2 and especially in DeltaNet". Compared are the floats a decoder keeps per layer.',
)
def larger_state_is_wider(group: Group) -> list[CellCheck]:
    """In each cell that both models solve, Mamba2 and DeltaNet have a larger state than Mamba and a
    window that is wider by ORDER_SLACK decades or more. If it is narrower by as much the cell
    fails, and a difference in between says nothing.
    """
    return [
        at_panel(panel, _more_state(group, role, panel), role)
        for role in group.roles((MAMBA2_1, DELTA_NET_1))
        for panel in _panels(group, [role], (SMALL, MIDDLE))
        if _solved_by(group, panel, (role, MAMBA_1))
    ]


def _panels(group: Group, roles: Iterable[Role], to_try: tuple[Panel, ...]) -> list[Panel]:
    """The panels at which a role was trained. A strict group adds the panels to try first, which
    stay open until they are trained.
    """
    trained = group.panels(roles)
    return sorted({*trained, *to_try}) if group.strict else trained


def unsolved(group: Group, role: Role, panel: Panel) -> Check:
    """An open check that asks for nothing: without a window there is none to judge."""
    return Check(None, f"no window in {group.score(role, panel).text}")


def _solved_by(group: Group, panel: Panel, roles: tuple[Role, ...]) -> bool:
    """Whether none of the roles is known to fail here.

    It excludes cells in which a role was searched and solves nothing: without a window there is
    nothing to compare.
    """
    wanted = [role for role in roles if group.strict or role in group.subjects]
    return not any(group.reaches(role, panel) is False for role in wanted)


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
        at_most(deep, NARROW),
        at_least(attention, WIDE),
        every([at_most(change, SAME_WINDOW), at_least(change, -SAME_WINDOW)], text=change.text),
        *(not_above(gain, NO_FURTHER) for gain in gains),
    ]
    return every(checks, text=told_all(checks))


def _in_order(group: Group, panel: Panel) -> Check:
    delta, two, one, attention = (
        group.window(role, panel) for role in (DELTA_NET_1, MAMBA2_1, MAMBA_1, ATTENTION_2)
    )
    wanted = group.roles((MAMBA2_1, MAMBA_1, ATTENTION_2))
    checks = []
    if MAMBA2_1 in wanted:
        checks.append(at_least(difference(delta, two), SAME_WINDOW))
    if MAMBA2_1 in wanted and MAMBA_1 in wanted:
        more = difference(two, one)
        checks += [clearly_above(more, ORDER_SLACK), at_most(more, SAME_WINDOW)]
    if ATTENTION_2 in wanted:
        checks.append(at_least(difference(delta, attention), -SAME_WINDOW))
    return every(checks, lacks="1-layer mamba2, mamba, and 2-layer attention")


def _more_state(group: Group, role: Role, panel: Panel) -> Check:
    subjects = [group.find(model, **panel._asdict()) for model in (role, MAMBA_1)]
    larger, smaller = (subject.cell.state_size if subject else None for subject in subjects)
    wider = clearly_above(
        difference(group.window(role, panel), group.window(MAMBA_1, panel)), ORDER_SLACK
    )
    if larger is None or smaller is None:
        lacks = f"the states of {role.name} and 1-layer mamba" if wider.holds is not None else ""
        return every([wider, Check(None, "", lacks)])
    text = f"state {count_text(larger, 'float')} against {smaller:,}"
    told = f"{text}: {wider.text}" if wider.text else ""
    return every([Check(larger > smaller, text), wider], text=told)


def _narrower(group: Group, role: Role, panel: Panel) -> Check:
    own, attention = group.window(role, panel), group.window(ATTENTION_2, panel)
    checks = [at_most(own, NARROW), at_least(difference(attention, own), NARROWER)]
    return every(checks, text=join([attention.text, own.text]))


def _low_outside(group: Group, role: Role, panel: Panel) -> Check:
    subject = group.find(role, **panel._asdict())
    if subject is None:  # the check of the window already requests it
        return Check(None, "")
    cell, limit = group.trusted_cell(subject), floor(subject) + NEAR_FLOOR
    outside = [rate.mean for rate in cell.scored_rates if rate.mean < group.tau]
    low = sum(score <= limit for score in outside)
    name = subject_text(role, subject)
    # A search for edges tries only rates next to the window, which says nothing about most others.
    if group.strict and (lacking := search_lacks(cell)):
        return Check(None, "", f"{name}: {lacking}", wants=group.wants(role, subject))
    text = (
        f"{name} below {limit:.2f} ({floor_text(subject)}) at {low} of {len(outside)} other rates"
    )
    if not outside:
        return Check(None, "", f"{name}: rates outside its window")
    return Check(low * 2 > len(outside), text, margin=low / len(outside) - 0.5)
