"""Positional encodings on models that need none (C23)."""

from typing import Any

from recollect.reports.paper.claims.checks import Check, at_least, at_most, difference, every
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.groups import Group
from recollect.reports.paper.claims.roles import WHOLE, Role
from recollect.reports.paper.claims.thresholds import POSITIONS_ALIKE

KINDS = ("sinusoidal", "relative", "learned")  # the study's absolute, relative, learned
ANY_POSITIONS = ("model.positions",)
MODELS = (
    Role("mamba", "mamba", None, WHOLE, ANY_POSITIONS),
    Role("hyena", "hyena", None, {}, ANY_POSITIONS),
    Role("rwkv4", "rwkv4", None, {}, ANY_POSITIONS),
    Role("h3", "h3", None, {}, ANY_POSITIONS),
)


@claim(
    "C23",
    "Positional encodings change nothing for Mamba, Hyena, RWKV and H3 (Table 4)",
    setting="any (length, pairs) of A.2, width and depth at which all four were tried with all "
    "four encodings",
    figure="table4",
    roles=MODELS,
    thresholds=(POSITIONS_ALIKE,),
    runs=("table4",),
    caveat="Table 4 names neither size nor width nor depth, and prints .29 +- .9 for Hyena, which "
    "must be a misprint.",
)
def positions_do_not_matter(group: Group) -> Check:
    """With each encoding the best score is within POSITIONS_ALIKE of that without one."""
    places = {
        (s.size, s.width, s.depth)
        for own in group.subjects.values()
        for s in own
        if s.positions in KINDS
    }
    checks = [
        _at(group, dict(zip(("size", "width", "depth"), place, strict=True)))
        for place in sorted(places)
    ]
    told = [check for check in checks if check.holds is not None]
    return every(told or checks[:1], lacks="mamba, hyena, rwkv4 and h3 with positions")


def _at(group: Group, place: dict[str, Any]) -> Check:
    checks = []
    for role in group.roles(MODELS):
        without = group.score(role, positions="none", **place)
        kinds = [
            kind for kind in KINDS if group.strict or group.find(role, positions=kind, **place)
        ]
        for kind in kinds:
            change = difference(group.score(role, positions=kind, **place), without)
            checks.append(
                every(
                    [at_most(change, POSITIONS_ALIKE), at_least(change, -POSITIONS_ALIKE)],
                    text=change.text,
                )
            )
    return every(checks, lacks="other encodings")
