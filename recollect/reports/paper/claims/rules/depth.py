"""The limits of one layer of attention, and the effect of width and depth on each kind of model
(C9, C10, C14).
"""

from collections import Counter

from recollect.reports.paper.claims.checks import (
    Check,
    at_least,
    below,
    difference,
    every,
    join,
    not_above,
    not_below,
    reaches,
    some,
)
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.coverage import CellCheck, at_panel
from recollect.reports.paper.claims.floors import floor_text, one_pair_most
from recollect.reports.paper.claims.groups import Group, Panel, size_text
from recollect.reports.paper.claims.roles import (
    ATTENTION_1,
    ATTENTION_2,
    HYENA_1,
    HYENA_2,
    MAMBA_1,
    MAMBA_2,
    Role,
)
from recollect.reports.paper.claims.thresholds import (
    FAILS,
    FLAT,
    GAIN,
    NOISES,
    ONE_PAIR_LEAST,
    ONE_PAIR_MOST,
    SOLVED,
)
from recollect.reports.paper.study import SCALING_SIZE, SIZES, WIDTHS, Size

RECURRENT_DEPTHS = ((MAMBA_1, MAMBA_2), (HYENA_1, HYENA_2))  # with one layer and with two


@claim(
    "C9",
    "1-layer attention fails at every width, and width does not matter",
    setting="all four (length, pairs) of A.2, widths 64 to 2048, 1 layer",
    figure="fig3",
    roles=(ATTENTION_1,),
    thresholds=(FAILS, FLAT, ONE_PAIR_MOST, NOISES),
    runs=("fig3 --set model.mixer=attention",),
)
def one_attention_fails(group: Group) -> list[CellCheck]:
    """In each cell the best score is below FAILS (or the upper bound of C10, where so few pairs are
    asked that it is higher), and within FLAT of the narrowest width's, NOISES standard errors
    allowed for.
    """
    cells = []
    for panel in group.panels([ATTENTION_1], SIZES, WIDTHS):
        score, subject = group.score(ATTENTION_1, panel), group.find(ATTENTION_1, **panel._asdict())
        checks = [below(score, max(FAILS, one_pair_most(subject)) if subject else FAILS)]
        narrowest = min(group.widths(ATTENTION_1, panel.size, WIDTHS))
        if panel.width > narrowest:
            change = difference(score, group.score(ATTENTION_1, size=panel.size, width=narrowest))
            checks += [not_above(change, FLAT), not_below(change, -FLAT)]
        cells.append(at_panel(panel, every(checks)))
    if group.strict and not _has_two_widths(group):
        lacks = "two widths at one size, to compare them"
        cells.append(CellCheck("two widths", Check(None, "", lacks), is_counted=False))
    return cells


def _has_two_widths(group: Group) -> bool:
    known = [
        panel.size
        for panel in group.panels([ATTENTION_1])
        if not group.score(ATTENTION_1, panel).lacks
    ]
    return any(count > 1 for count in Counter(known).values())


@claim(
    "C10",
    "1-layer attention recalls about one pair",
    setting="all four (length, pairs) of A.2, widths 64 to 2048, 1 layer",
    figure="fig3",
    roles=(ATTENTION_1,),
    thresholds=(ONE_PAIR_LEAST, ONE_PAIR_MOST, NOISES),
    runs=("fig3 --set model.mixer=attention",),
    contradiction='Section 4 says "one key-value pair", the abstract "does not '
    "exceed "
    'random guessing": of one of the pairs, '
    "that is. The power-law placement lets position alone give a little more than 1 / pairs; the "
    "bound is worked out per task.",
)
def one_attention_recalls_one(group: Group) -> list[CellCheck]:
    """In each cell the best score lies between ONE_PAIR_LEAST / pairs and ONE_PAIR_MOST times the
    best position-only accuracy, NOISES standard errors allowed for; a diverged run counts as 0.
    """
    cells = []
    for panel in group.panels([ATTENTION_1], SIZES, WIDTHS):
        score, subject = group.score(ATTENTION_1, panel), group.find(ATTENTION_1, **panel._asdict())
        least = ONE_PAIR_LEAST / max(1, panel.size[1])
        # Of an untrained cell: about the same, so that its best score is asked for.
        most = one_pair_most(subject) if subject else ONE_PAIR_MOST / max(1, panel.size[1])
        told = ""
        if subject and score.text and not group.brief:
            told = f"{score.text}, wanted {least:.3f} to {most:.3f} ({floor_text(subject)})"
        checks = [not_below(score, least), not_above(score, most)]
        cells.append(at_panel(panel, every(checks, text=told)))
    return cells


@claim(
    "C14",
    "Opposite scaling: width lifts recurrent models and not attention, a second layer lifts "
    "attention, whatever the number of parameters",
    setting="(256,64), widths 64 to 2048; attention, Mamba and Hyena with 1 and 2 layers",
    figure="fig4",
    roles=(ATTENTION_1, ATTENTION_2, *(role for pair in RECURRENT_DEPTHS for role in pair)),
    thresholds=(GAIN, FLAT, SOLVED, NOISES),
    runs=("""fig4 --set 'sweep.model.mixer=["attention","hyena","mamba"]'""",),
    fits=lambda subject: subject.size == SCALING_SIZE,
    caveat="(256,64) is in the caption of Fig. 4, not among the sizes of A.2. That more than 2 "
    "layers bring nothing is in C15.",
)
def scaling_is_opposite(group: Group) -> list[CellCheck]:
    """From the narrowest to the widest, 1-layer Mamba and Hyena gain at least GAIN (unless the
    narrowest reaches SOLVED) and 1-layer attention at most FLAT. At every width a second layer
    lifts attention by at least GAIN, also above the narrowest 1-layer attention with as many
    parameters, and neither Mamba nor Hyena by more than attention. The two upper limits allow for
    NOISES standard errors.
    """
    return [
        cell
        for size in group.sizes([ATTENTION_1], [SCALING_SIZE])
        for cell in _scaling(group, size)
    ]


def _scaling(group: Group, size: Size) -> list[CellCheck]:
    widths = group.widths(ATTENTION_1, size, WIDTHS)
    if len(widths) < 2:
        lacks = f"1-layer attention {size_text(size)} at more widths"
        return [CellCheck("widths", Check(None, "", lacks), size)]
    ends = [Panel(size, widths[0]), Panel(size, widths[-1])]
    pairs = [(one, two) for one, two in RECURRENT_DEPTHS if group.strict or one in group.subjects]
    if not pairs:
        return [CellCheck("recurrent", Check(None, "", "1-layer mamba and hyena"), size)]
    lines = [_gains(group, one, ends) for one, _ in pairs]
    narrow, wide = (group.score(ATTENTION_1, end) for end in ends)
    lines.append(
        CellCheck("width, 1-layer attention", not_above(difference(wide, narrow), FLAT), size)
    )
    return lines + [
        at_panel(Panel(size, width), _second_layer(group, Panel(size, width), widths, pairs))
        for width in widths
    ]


def _gains(group: Group, role: Role, ends: list[Panel]) -> CellCheck:
    least, most = (group.score(role, end) for end in ends)
    check = some(
        [reaches(least, SOLVED), at_least(difference(most, least), GAIN)],
        text=join([least.text, most.text]),
    )
    return CellCheck(f"width, {role.name}", check, ends[0].size, role)


def _second_layer(
    group: Group, panel: Panel, widths: list[int], pairs: list[tuple[Role, Role]]
) -> Check:
    lift = difference(group.score(ATTENTION_2, panel), group.score(ATTENTION_1, panel))
    checks = [at_least(lift, GAIN)]
    as_large = _as_many_parameters(group, panel, widths)
    if as_large:
        rival = group.score(ATTENTION_1, as_large)
        checks.append(at_least(difference(group.score(ATTENTION_2, panel), rival), GAIN))
    for one, two in pairs:
        if group.strict or two in group.subjects:
            recurrent = difference(group.score(two, panel), group.score(one, panel))
            checks.append(not_above(difference(recurrent, lift), 0.0))
    return every(checks)


def _as_many_parameters(group: Group, panel: Panel, widths: list[int]) -> Panel | None:
    """The panel of the narrowest 1-layer attention that has at least as many parameters as the
    2-layer attention at `panel`.
    """
    deep = group.find(ATTENTION_2, **panel._asdict())
    if deep is None or deep.cell.parameters is None:
        return None
    for width in widths:
        other = group.find(ATTENTION_1, size=panel.size, width=width)
        if other and (other.cell.parameters or 0) >= deep.cell.parameters:
            return Panel(panel.size, width)
    return None
