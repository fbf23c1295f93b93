"""What one layer of attention cannot do,
and what width and depth do to each kind of model (C9, C10, C14).
"""

from recollect.reports.paper.claims.checks import (
    Check,
    at_least,
    at_most,
    below,
    difference,
    every,
    join,
    some,
    spread,
)
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.floors import one_pair_most
from recollect.reports.paper.claims.groups import Group, size_text
from recollect.reports.paper.claims.roles import ATTENTION_1, ATTENTION_2, HYENA_1, MAMBA_1, Role
from recollect.reports.paper.claims.thresholds import (
    FAILS,
    FLAT,
    GAIN,
    ONE_PAIR_LEAST,
    ONE_PAIR_MOST,
    SOLVED,
)
from recollect.reports.paper.study import SCALING_SIZE, SIZES, WIDTHS, Size

MAMBA_AND_HYENA = (MAMBA_1, HYENA_1)


@claim(
    "C9",
    "1-layer attention fails at every width, and width does not matter",
    setting="all four (length, pairs) of A.2, widths 64 to 2048, 1 layer",
    figure="fig3",
    roles=(ATTENTION_1,),
    thresholds=(FAILS, FLAT),
    runs=("fig3 --set model.mixer=attention",),
)
def one_attention_fails(group: Group) -> Check:
    """At each size every best score is below FAILS (or the one-pair bound, where so few pairs are
    asked that it is higher), and the widths differ by at most FLAT.
    """
    checks = []
    for size in group.sizes([ATTENTION_1], SIZES):
        widths = group.widths(ATTENTION_1, size, WIDTHS)
        scores = [group.score(ATTENTION_1, size=size, width=width) for width in widths]
        subjects = [group.find(ATTENTION_1, size=size, width=width) for width in widths]
        limits = [max(FAILS, one_pair_most(subject)) if subject else FAILS for subject in subjects]
        checks += [below(score, limit) for score, limit in zip(scores, limits, strict=True)]
        if len(scores) > 1:
            told = (
                f"{size_text(size)}: {len(scores)} widths between "
                f"{min(s.low for s in scores):.3f} and "
            )
            checks.append(at_most(spread(scores, told + f"{max(s.low for s in scores):.3f}"), FLAT))
    return every(checks, lacks="1-layer attention")


@claim(
    "C10",
    "1-layer attention recalls about one pair",
    setting="all four (length, pairs) of A.2, widths 64 to 2048, 1 layer",
    figure="fig3",
    roles=(ATTENTION_1,),
    thresholds=(ONE_PAIR_LEAST, ONE_PAIR_MOST),
    runs=("fig3 --set model.mixer=attention",),
    contradiction='Section 4 says "one key-value pair", the abstract "does not '
    "exceed "
    'random guessing": of one of the pairs, '
    "that is. The power-law placement lets position alone give a little more than 1 / pairs; the "
    "bound is worked out per task.",
)
def one_attention_recalls_one(group: Group) -> Check:
    """Each best score lies between ONE_PAIR_LEAST / pairs
    and ONE_PAIR_MOST times the best position-only accuracy.
    """
    checks = []
    for panel in group.panels([ATTENTION_1], SIZES, WIDTHS):
        score, subject = group.score(ATTENTION_1, panel), group.find(ATTENTION_1, **panel._asdict())
        least = ONE_PAIR_LEAST / panel.size[1]
        most = one_pair_most(subject) if subject else 1.0
        told = f"{score.text}, wanted {least:.3f} to {most:.3f}" if score.text else ""
        checks.append(every([at_least(score, least), at_most(score, most)], text=told))
    return every(checks, lacks="1-layer attention")


@claim(
    "C14",
    "Opposite scaling: width lifts recurrent models and not attention, a second layer lifts "
    "attention",
    setting="(256,64), widths 64 to 2048; attention with 1 and 2 layers, Mamba and Hyena with 1",
    figure="fig4",
    roles=(ATTENTION_1, ATTENTION_2, *MAMBA_AND_HYENA),
    thresholds=(GAIN, FLAT, SOLVED),
    runs=("""fig4 --set 'sweep.model.mixer=["attention","hyena","mamba"]'""",),
    fits=lambda subject: subject.size == SCALING_SIZE,
    caveat="(256,64) is in the caption of Fig. 4, not among the sizes of A.2. That more than 2 "
    "layers bring nothing is in C15.",
)
def scaling_is_opposite(group: Group) -> Check:
    """From the narrowest to the widest, 1-layer Mamba and Hyena gain at least GAIN (unless the
    narrowest is at SOLVED) and 1-layer attention at most FLAT; at every width a second layer lifts
    attention by at least GAIN.
    """
    return every(
        (_scaling(group, size) for size in group.sizes([ATTENTION_1], [SCALING_SIZE])),
        lacks="attention with 1 and 2 layers",
    )


def _scaling(group: Group, size: Size) -> Check:
    widths = group.widths(ATTENTION_1, size, WIDTHS)
    if len(widths) < 2:
        return Check(None, "", f"1-layer attention {size_text(size)} at more widths")
    narrow, wide = widths[0], widths[-1]

    def gained(role: Role) -> Check:
        least, most = (
            group.score(role, size=size, width=narrow),
            group.score(role, size=size, width=wide),
        )
        return some(
            [at_least(least, SOLVED), at_least(difference(most, least), GAIN)],
            text=join([least.text, most.text]),
        )

    least, most = (group.score(ATTENTION_1, size=size, width=width) for width in (narrow, wide))
    lifts = [
        difference(
            group.score(ATTENTION_2, size=size, width=width),
            group.score(ATTENTION_1, size=size, width=width),
        )
        for width in widths
    ]
    recurrent = [gained(role) for role in group.roles(MAMBA_AND_HYENA)]
    checks = [
        *recurrent,
        at_most(difference(most, least), FLAT),
        *(at_least(lift, GAIN) for lift in lifts),
    ]
    return every(checks if recurrent else [], lacks="1-layer mamba and hyena")
