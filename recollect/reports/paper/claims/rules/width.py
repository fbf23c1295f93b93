"""The effect of width on recurrent models with one layer and with two (C11, C29)."""

from itertools import pairwise

from recollect.reports.paper.claims.checks import (
    Check,
    Measure,
    at_least,
    difference,
    every,
    not_below,
    some,
)
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.coverage import CellCheck
from recollect.reports.paper.claims.groups import Group, size_text
from recollect.reports.paper.claims.roles import RECURRENT_1, RECURRENT_2, Role
from recollect.reports.paper.claims.thresholds import DIP, NOISES, SOLVED
from recollect.reports.paper.study import SIZES, WIDTHS, Size

FOUR_RECURRENT = """'sweep.model.mixer=["h3","hyena","mamba","rwkv4"]'"""


@claim(
    "C11",
    "1-layer recurrent models (H3, Hyena, RWKV, Mamba) improve with width at fixed length",
    setting="all four (length, pairs) of A.2, widths 64 to 2048, 1 layer",
    figure="fig12",
    roles=RECURRENT_1,
    thresholds=(DIP, SOLVED, NOISES),
    runs=(f"fig12 --set {FOUR_RECURRENT} --set model.positions=none",),
)
def width_helps_recurrent(group: Group) -> list[CellCheck]:
    """In each line of the figure, one model and one size, the best score never falls from one width
    to the next by more than DIP, unless it stays at SOLVED, and the widest is at least DIP above
    the narrowest, unless that one is at SOLVED already. NOISES standard errors are allowed for.
    """
    return _lines(group, RECURRENT_1)


@claim(
    "C29",
    "2-layer recurrent models improve with width at fixed length, too",
    setting="all four (length, pairs) of A.2, widths 64 to 2048, 2 layers",
    figure="fig11",
    roles=RECURRENT_2,
    thresholds=(DIP, SOLVED, NOISES),
    runs=(f"fig11 --set {FOUR_RECURRENT} --set model.positions=none",),
)
def width_helps_two_layers(group: Group) -> list[CellCheck]:
    """As for one layer: in each line of the figure the best score never falls by more than DIP,
    unless it stays at SOLVED, and the widest is at least DIP above the narrowest, unless that one
    is at SOLVED already. NOISES standard errors are allowed for.
    """
    return _lines(group, RECURRENT_2)


def _lines(group: Group, roles: tuple[Role, ...]) -> list[CellCheck]:
    return [
        CellCheck(f"{role.name} {size_text(size)}", _rises(group, role, size), size, role)
        for role in group.roles(roles)
        for size in group.sizes([role], SIZES)
    ]


def _rises(group: Group, role: Role, size: Size) -> Check:
    """The check of one line of the figure: one model at one size, over all widths."""
    scores = [
        group.score(role, size=size, width=width) for width in group.widths(role, size, WIDTHS)
    ]
    if len(scores) < 2:
        return Check(None, "", f"{role.name} at more widths")
    steps = [_keeps(narrow, wide) for narrow, wide in pairwise(scores)]
    risen = some([not_below(scores[0], SOLVED), at_least(difference(scores[-1], scores[0]), DIP)])
    return every([*steps, risen])


def _keeps(narrow: Measure, wide: Measure) -> Check:
    """The check of one step: no fall that matters. Among models that solve the task, noise is all
    that a step can show.
    """
    change = difference(wide, narrow)
    kept, solved = not_below(change, -DIP), not_below(wide, SOLVED)
    return kept if kept.holds or not solved.holds else solved
