"""The effect of width on recurrent models with one layer and with two (C11, C29)."""

from itertools import pairwise

from recollect.reports.paper.claims.checks import (
    Check,
    at_least,
    difference,
    every,
    not_below,
    reaches,
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
    """In each line of the figure (one model, one size) the best score never falls from one width to
    the next by more than DIP, NOISES standard errors allowed for, unless it still reaches SOLVED.
    The widest is at least DIP above the narrowest, unless that one reaches SOLVED already.
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
    NOISES standard errors allowed for, unless it still reaches SOLVED. The widest is at least DIP
    above the narrowest, unless that one reaches SOLVED already.
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
    risen = _either(reaches(scores[0], SOLVED), at_least(difference(scores[-1], scores[0]), DIP))
    steps = [
        _either(not_below(difference(wide, narrow), -DIP), reaches(wide, SOLVED))
        for narrow, wide in pairwise(scores)
    ]
    return every([*steps, risen])


def _either(first: Check, second: Check) -> Check:
    """One of two checks of which one must hold: the one that comes nearer to it. Of open ones it is
    one that runs can settle.
    """

    def near(check: Check) -> tuple[float, bool, float]:
        return 0.5 if check.holds is None else check.holds, bool(check.wants), check.margin

    return max(first, second, key=near)
