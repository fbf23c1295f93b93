"""Positional encodings on models that need none (C23)."""

from dataclasses import replace
from typing import Any

from recollect.analysis import count_text
from recollect.reports.paper.claims.checks import (
    difference,
    every,
    not_above,
    not_below,
    reaches,
)
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.coverage import UNNAMED, CellCheck
from recollect.reports.paper.claims.floors import floor, floor_text
from recollect.reports.paper.claims.groups import Group, size_text
from recollect.reports.paper.claims.roles import WHOLE, Role
from recollect.reports.paper.claims.thresholds import NOISES, POSITIONS_ALIKE, SOLVED, TRIVIAL

KINDS = ("sinusoidal", "relative", "learned")  # the study's absolute, relative, learned
ANY_POSITIONS = ("model.positions",)
MODELS = (
    Role("mamba", "mamba", None, WHOLE, ANY_POSITIONS),
    Role("hyena", "hyena", None, {}, ANY_POSITIONS),
    Role("rwkv4", "rwkv4", None, {}, ANY_POSITIONS),
    Role("h3", "h3", None, {}, ANY_POSITIONS),
)


SOLVING = MODELS[0]  # .99 in Table 4 with every encoding; the other models are near chance there
PLACE = ("size", "width", "depth")
# The cells to try. At the first, chance is .25, as in Table 4; at the second, most models learn.
TO_TRY = {((64, 4), 64, 1), ((256, 16), 512, 1)}


@claim(
    "C23",
    "Positional encodings change nothing for Mamba, Hyena, RWKV and H3 (Table 4)",
    setting="any (length, pairs) of A.2, width and depth at which a model was tried with all four "
    "encodings and learns something",
    figure="table4",
    roles=MODELS,
    thresholds=(POSITIONS_ALIKE, SOLVED, TRIVIAL, NOISES),
    runs=("table4", "table4 --set task.length=256 --set task.pairs=16 --set model.width=512"),
    coverage=UNNAMED,
    models=MODELS,
    varies=("model.positions",),
    caveat="Table 4 names neither size nor width nor depth, and prints .29 +- .9 for Hyena, which "
    "must be a misprint. Its numbers for Hyena, RWKV and H3 are near chance for four pairs, where "
    "all encodings are alike for a trivial reason: such cells are not counted.",
)
def positions_do_not_matter(group: Group) -> list[CellCheck]:
    """In each cell the best score with each encoding is within POSITIONS_ALIKE of that without one,
    NOISES standard errors allowed for, and Mamba's reaches SOLVED without one. A model that is
    within TRIVIAL of what position alone gives, whatever the encoding, says nothing.
    """
    cells = []
    for role in group.roles(MODELS):
        places = {
            (s.size, s.width, s.depth) for s in group.subjects.get(role, ()) if s.positions in KINDS
        }
        if group.strict:
            places |= TO_TRY
        cells += [
            _at(group, role, dict(zip(PLACE, place, strict=True))) for place in sorted(places)
        ]
    return cells


def _at(group: Group, role: Role, place: dict[str, Any]) -> CellCheck:
    without = group.score(role, positions="none", **place)
    kinds = [kind for kind in KINDS if group.strict or group.find(role, positions=kind, **place)]
    scores = [group.score(role, positions=kind, **place) for kind in kinds]
    changes = [difference(score, without) for score in scores]
    checks = [
        every(
            [not_above(change, POSITIONS_ALIKE), not_below(change, -POSITIONS_ALIKE)],
            text=change.text,
        )
        for change in changes
    ]
    if role is SOLVING and group.strict:
        checks.append(reaches(without, SOLVED))
    subject = group.find(role, positions="none", **place)
    # Of the encodings, the one that changes most; the condition on Mamba's own score shows none.
    widest = max(changes, key=lambda change: max(abs(change.low), abs(change.high)), default=None)
    check = every(checks, text=widest.text if widest else "", lacks="other encodings")
    if subject and group.strict and check.holds:
        least = floor(subject) + TRIVIAL
        if all(score.high <= least for score in (without, *scores)):
            told = f"{check.text}: trivial ({floor_text(subject)})"
            check = replace(check, holds=None, text=told, lacks=f"{role.name} where it learns")
    size, width, depth = place.values()
    label = f"{role.name} {size_text(size)} width {width}, {count_text(depth, 'layer')}"
    return CellCheck(label, check, size, role)
