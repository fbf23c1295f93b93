"""Whether a model loses distant tokens: the decay of its maps with distance (C32)."""

import statistics
from collections.abc import Mapping, Sequence

from recollect.analysis import count_text
from recollect.reports.paper.claims.checks import Check, every, join
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.coverage import UNNAMED, CellCheck, at_panel
from recollect.reports.paper.claims.groups import Group, Panel, Subject, subject_text
from recollect.reports.paper.claims.roles import NO_POSITIONS, WHOLE, Role
from recollect.reports.paper.claims.thresholds import FASTER_DECAY, LEAST_SEEDS, VANISHED

DELTA_NET = Role("delta_net", "delta_net", None, NO_POSITIONS)
DECAYING = (
    Role("mamba", "mamba", None, NO_POSITIONS | WHOLE),
    Role("mamba2", "mamba2", None, NO_POSITIONS | WHOLE),
)


@claim(
    "C32",
    "Away from the diagonal, the maps of Mamba and Mamba2 decay fast and DeltaNet's need not",
    setting="any (length, pairs) and width of A.2, any depth; weights at initialisation",
    figure="fig7",
    roles=(DELTA_NET, *DECAYING),
    thresholds=(FASTER_DECAY, VANISHED, LEAST_SEEDS),
    runs=("fig7",),
    coverage=UNNAMED,
    models=DECAYING,
    is_drawn=False,  # weights at initialisation have no scores
    caveat="Section 7 argues it from the recurrences. Measured by `recollect inspect DIR RUN "
    "--untrained`, whose records beside the store are read.",
)
def decay_is_faster(group: Group) -> list[CellCheck]:
    """In each cell with inspected runs of LEAST_SEEDS seeds of both models: the share of its maps'
    mass that Mamba (or Mamba2) loses per token of distance is at least FASTER_DECAY times what
    DeltaNet loses. Over the whole length of the task such a decay leaves Mamba (or Mamba2) at most
    VANISHED of the mass, and DeltaNet more. All numbers are means over seeds and maps.
    """
    cells = [
        at_panel(Panel(own.size, own.width), _decays(group, role, own, other), role)
        for role in group.roles(DECAYING)
        for own in group.subjects.get(role, ())
        for other in group.subjects.get(DELTA_NET, ())
        if (own.size, own.width, own.depth) == (other.size, other.width, other.depth)
        and any(_kept(group, subject) for subject in (own, other))
    ]
    return cells or [CellCheck("inspected", Check(None, "", _TO_INSPECT))]


_TO_INSPECT = (
    "`recollect inspect DIR RUN --untrained`, for runs of delta_net, mamba and mamba2 with "
    f"{LEAST_SEEDS:g} seeds each"
)


def _kept(group: Group, subject: Subject) -> Mapping[int, Sequence[float]]:
    """By seed: what the maps of an inspected run keep per token. Runs that differ in their rate
    alone begin with the same weights, so they count once.
    """
    rows = subject.as_trained.rows
    return {row.spec["seed"]: group.kept[row.run_id] for row in rows if row.run_id in group.kept}


def _decays(group: Group, role: Role, own: Subject, other: Subject) -> Check:
    length = own.size[0]
    lost: list[float] = []
    left: list[float] = []
    texts: list[str] = []
    lacks: list[str] = []
    for model, subject in ((role, own), (DELTA_NET, other)):
        kept = _kept(group, subject)
        # At a smaller scale one seed is enough for a remark.
        if len(kept) < (LEAST_SEEDS if group.strict else 1):
            lacks.append(f"{subject_text(model, subject)}: {_to_inspect(subject, kept)}")
            continue
        lost.append(1 - _mean_of_maps(kept))
        # A map that grows with distance leaves all of its mass.
        at_the_end = {
            seed: [min(factor, 1.0) ** length for factor in maps] for seed, maps in kept.items()
        }
        left.append(_mean_of_maps(at_the_end))
        texts.append(
            f"{subject_text(model, subject)} loses {lost[-1]:.3f} per token and leaves "
            f"{left[-1]:.2g} over {length} tokens ({count_text(len(kept), 'seed')})"
        )
    if lacks:
        return Check(None, join(texts), join(lacks))
    faster = lost[0] - FASTER_DECAY * max(lost[1], 0.0)
    text = ", ".join(texts)
    return every(
        [
            Check(faster >= 0, text, margin=faster),
            Check(left[0] <= VANISHED, text, margin=VANISHED - left[0]),
            Check(left[1] > VANISHED, text, margin=left[1] - VANISHED),
        ],
        text=text,
    )


def _mean_of_maps(by_seed: Mapping[int, Sequence[float]]) -> float:
    return statistics.fmean(statistics.fmean(maps) for maps in by_seed.values())


def _to_inspect(subject: Subject, kept: Mapping[int, Sequence[float]]) -> str:
    """The command for seeds that are missing, with the runs to name in it."""
    runs = {row.spec["seed"]: row.run_id for row in subject.as_trained.rows}
    missing = [run for seed, run in runs.items() if seed not in kept]
    wanted = int(LEAST_SEEDS) - len(kept)
    if len(missing) < wanted:
        return f"runs with {LEAST_SEEDS:g} seeds"
    return f"`recollect inspect DIR RUN --untrained` of {', '.join(missing[:wanted])}"
