"""The copy task: which Mamba copies, and over which rates (C16, C17)."""

from dataclasses import replace

from recollect.reports.paper.claims.checks import (
    Check,
    Measure,
    at_least,
    at_most,
    difference,
    every,
    join,
    not_above,
    reaches,
)
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.coverage import CellCheck
from recollect.reports.paper.claims.groups import Group, Subject
from recollect.reports.paper.claims.roles import NO_POSITIONS, PLAIN_ATTENTION, WHOLE, Role
from recollect.reports.paper.claims.thresholds import (
    COPY_FAILS,
    COPY_HALF,
    COPY_NARROWER,
    NARROW,
    NOISES,
    SOLVED,
    WIDE,
    WINDOW,
)

# The code that the study followed uses GPT-NeoX's heads, and a Mamba with a state of 32 and
# LayerNorm. These are taken as the study's models.
ROPE_OPTIONS = PLAIN_ATTENTION | {"model.positions": "rope"}
ROPE = Role(
    "attention with RoPE",
    "attention",
    None,
    ROPE_OPTIONS,
    ("model.mixer.heads", "model.mixer.rope_share"),
)
MAMBA = Role("mamba", "mamba", None, NO_POSITIONS | WHOLE, ("model.mixer.state", "model.norm"))
PLAIN_SHAPE, DEEP_SHAPE, WIDE_SHAPE = (
    (12, 1024),
    (24, 1024),
    (12, 1408),
)  # layers and width, Table 1
TABLE_1 = {"attention": (PLAIN_SHAPE,), "mamba": (PLAIN_SHAPE, DEEP_SHAPE, WIDE_SHAPE)}
SILENT = (
    "The study does not state lengths, steps or batch of its copy task; the preset's are this "
    "package's choice."
)


def _of_table_1(subject: Subject) -> bool:
    shapes = TABLE_1.get(str(subject.flat.get("model.mixer.name")), ())
    return (subject.depth, subject.width) in shapes


@claim(
    "C16",
    "Copying: Mamba fails with more layers and succeeds with more width, at equal parameters "
    "(Table 1)",
    setting="attention with RoPE 12 x 1024; Mamba 12 x 1024, 24 x 1024, 12 x 1408 (layers x "
    "width); whole strings",
    figure="table1",
    roles=(ROPE, MAMBA),
    thresholds=(COPY_FAILS, COPY_HALF, SOLVED, NOISES),
    runs=("table1",),
    task="copying",
    fits=_of_table_1,
    contradiction="Table 1 prints 150 M parameters for 24 x 1024; it has about 160 M, so the pair "
    "is not quite equal.",
    caveat=SILENT,
)
def width_copies(group: Group) -> list[CellCheck]:
    """Attention and the wide Mamba (12 x 1408) reach SOLVED. The plain Mamba (12 x 1024) scores at
    most COPY_FAILS, NOISES standard errors allowed for, and the deep one (24 x 1024) at most
    COPY_HALF. At a reduced scale plain is the smallest Mamba, deep the one with most layers and
    wide the one with most channels.
    """
    plain, deep, wide = _shapes(group)
    if not group.strict and len({plain, deep, wide}) < 3:
        return [CellCheck("table", Check(None, "", "a plain, a deeper and a wider mamba"))]
    attention = _sized(group, ROPE, *PLAIN_SHAPE) if group.strict else _best(group, ROPE)
    checks = {
        "attention": reaches(attention, SOLVED),
        "plain mamba": not_above(_sized(group, MAMBA, *plain), COPY_FAILS),
        "deep mamba": at_most(_sized(group, MAMBA, *deep), COPY_HALF),
        "wide mamba": reaches(_sized(group, MAMBA, *wide), SOLVED),
    }
    return [CellCheck(line, check) for line, check in checks.items()]


@claim(
    "C17",
    "Copying: attention with RoPE tolerates a wide range of learning rates, Mamba a narrow one",
    setting="attention with RoPE 12 x 1024 and whichever Mamba of Table 1 copies best; whole "
    "strings",
    figure="fig5",
    roles=(ROPE, MAMBA),
    thresholds=(WINDOW, WIDE, NARROW, COPY_NARROWER),
    runs=("fig5",),
    task="copying",
    fits=_of_table_1,
    caveat=SILENT,
)
def copying_is_narrow(group: Group) -> list[CellCheck]:
    """Each model in its best size: attention's window has WIDE decades or more, and Mamba's has
    NARROW decades or fewer, and COPY_NARROWER or more fewer than attention's.
    """
    windows = []
    for role, shape in ((ROPE, PLAIN_SHAPE), (MAMBA, WIDE_SHAPE)):
        subject = _best_subject(group, role)
        if subject is None and not group.strict:
            return [CellCheck("copying", Check(None, "", f"{role.name} on copying"))]
        depth, width = (subject.depth, subject.width) if subject else shape
        windows.append(group.window(role, depth=depth, width=width))
    attention, mamba = windows
    checks = [
        at_least(attention, WIDE),
        at_most(mamba, NARROW),
        at_least(difference(attention, mamba), COPY_NARROWER),
    ]
    return [CellCheck("copying", every(checks, text=join([attention.text, mamba.text])))]


def _shapes(group: Group) -> tuple[tuple[int, int], ...]:
    if group.strict:
        return PLAIN_SHAPE, DEEP_SHAPE, WIDE_SHAPE
    shapes = [(subject.depth, subject.width) for subject in group.subjects.get(MAMBA, ())] or [
        (0, 0)
    ]
    least, narrowest = min(depth for depth, _ in shapes), min(width for _, width in shapes)
    return (
        (least, narrowest),
        (max(depth for depth, _ in shapes), narrowest),
        (least, max(width for _, width in shapes)),
    )


def _sized(group: Group, role: Role, depth: int, width: int) -> Measure:
    score = group.score(role, depth=depth, width=width)
    subject = group.find(role, depth=depth, width=width)
    parameters = subject.cell.parameters if subject else None
    if not parameters or not score.text:
        return score
    return replace(score, text=f"{score.text}, {parameters / 1e6:.3g} M parameters")


def _best_subject(group: Group, role: Role) -> Subject | None:
    return max(
        group.subjects.get(role, ()), key=lambda subject: _mean(group, subject), default=None
    )


def _best(group: Group, role: Role) -> Measure:
    subject = _best_subject(group, role)
    return (
        _sized(group, role, subject.depth, subject.width)
        if subject
        else Measure(0.0, 1.0, "", f"{role.name} on copying")
    )


def _mean(group: Group, subject: Subject) -> float:
    best = group.trusted_cell(subject).best
    return best.mean if best else -1.0
