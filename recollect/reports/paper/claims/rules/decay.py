"""Whether a model loses distant tokens: the decay of its maps with distance (C32)."""

import statistics

from recollect.reports.paper.claims.checks import Check, every
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.coverage import UNNAMED, CellCheck, at_panel
from recollect.reports.paper.claims.groups import Group, Panel, Subject, subject_text
from recollect.reports.paper.claims.roles import NO_POSITIONS, WHOLE, Role
from recollect.reports.paper.claims.thresholds import FASTER_DECAY

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
    thresholds=(FASTER_DECAY,),
    runs=("fig7",),
    coverage=UNNAMED,
    models=DECAYING,
    caveat="Section 7 argues it from the recurrences. Measured by `recollect inspect DIR RUN "
    "--untrained`, whose records beside the store are read.",
)
def decay_is_faster(group: Group) -> list[CellCheck]:
    """In each cell with inspected runs of both, the share of a map's mass that Mamba, and Mamba2,
    lose per token of distance is at least FASTER_DECAY times DeltaNet's; any loss is, where
    DeltaNet loses nothing.
    """
    cells = [
        at_panel(Panel(own.size, own.width), _faster(group, role, own, other), role)
        for role in group.roles(DECAYING)
        for own in group.subjects.get(role, ())
        for other in group.subjects.get(DELTA_NET, ())
        if (own.size, own.width, own.depth) == (other.size, other.width, other.depth)
        and any(_kept(group, subject) for subject in (own, other))
    ]
    return cells or [CellCheck("inspected", Check(None, "", _TO_INSPECT))]


_TO_INSPECT = "`recollect inspect DIR best:delta_net --untrained`, best:mamba and best:mamba2"


def _kept(group: Group, subject: Subject) -> list[float]:
    """What the inspected runs of a subject keep per token."""
    return [group.kept[row.run_id] for row in subject.cell.rows if row.run_id in group.kept]


def _faster(group: Group, role: Role, own: Subject, other: Subject) -> Check:
    lost: list[float] = []
    texts: list[str] = []
    for model, subject in ((role, own), (DELTA_NET, other)):
        kept = _kept(group, subject)
        if not kept:
            command = f"`recollect inspect DIR best:{model.mixer} --untrained`"
            return Check(None, "", f"{subject_text(model, subject)}: {command}")
        lost.append(1 - statistics.fmean(kept))
        texts.append(f"{subject_text(model, subject)} loses {lost[-1]:.3f} per token")
    fast, slow = lost
    margin = fast - FASTER_DECAY * max(slow, 0.0)
    return every([Check(fast > 0 and margin >= 0, ", ".join(texts), margin=margin)])
