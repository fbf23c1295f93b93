"""Which part of a 1-layer model solves the task: convolution, gate or block (C20, C21)."""

from recollect.reports.paper.claims.checks import Check, every, join, not_above, reaches, some
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.coverage import UNNAMED, CellCheck, at_panel
from recollect.reports.paper.claims.floors import failure
from recollect.reports.paper.claims.groups import Group, Panel, size_text
from recollect.reports.paper.claims.roles import (
    ATTENTION_1,
    MAMBA_1,
    MAMBA_1_NO_CONV,
    MAMBA_1_NO_GATE,
    MAMBA_2_NO_CONV,
    S6_MLP_1,
    Role,
    convolved_attention,
)
from recollect.reports.paper.claims.thresholds import NOISES, ONE_PAIR_MOST, SOLVED, TWO_PERCENT
from recollect.reports.paper.study import ABLATION_SIZE, SIZES, Size

MAMBA_WITHOUT_CONV = """'model.mixer={name="mamba",kernel=0}'"""
CONV_QKV, CONV_K, CONV_Q = (
    convolved_attention("qkv"),
    convolved_attention("k"),
    convolved_attention("q"),
)
CONV_V_SAME, CONV_V_CAUSAL = convolved_attention("v", "same"), convolved_attention("v", "causal")
SOLVE = (CONV_QKV, CONV_K, MAMBA_1, MAMBA_1_NO_GATE, S6_MLP_1)
FAIL = (ATTENTION_1, CONV_Q, MAMBA_1_NO_CONV)


ABLATION_PANEL = Panel(ABLATION_SIZE, 256)  # the width is not stated


@claim(
    "C20",
    "In 1-layer models the convolution decides (Tables 2 and 3)",
    setting="(512,64), inferred from the 2 % of what fails, or another of A.2; the width is not "
    "stated; 1 layer",
    figure="table3",
    roles=(*SOLVE, *FAIL, CONV_V_SAME, CONV_V_CAUSAL),
    thresholds=(SOLVED, TWO_PERCENT, ONE_PAIR_MOST, NOISES),
    runs=("table3", "table3 --set task.length=64 --set task.pairs=4"),
    coverage=UNNAMED,
    contradiction='The study contradicts itself on "Mamba w/o conv1d": 2 % '
    "in this version, solved in an earlier one; judged "
    'by this. "Conv on V" (99 %) cannot bind with a causal '
    "convolution, which sees the past at the key's place and not its value: the padding is not "
    "stated, both are measured and either may solve it.",
)
def convolution_decides(group: Group) -> list[CellCheck]:
    """At each size: at some width tried these reach SOLVED: attention with convolutions on QKV, on
    K, on V (either padding), Mamba, Mamba without gate, S6 + MLP. At every width these stay at
    TWO_PERCENT (or the upper bound of C10, where it is higher), NOISES standard errors allowed for:
    attention, attention with one on Q, Mamba without convolution.
    """
    ablated = [role for role in group.subjects if role not in (ATTENTION_1, MAMBA_1)]
    sizes = {panel.size for panel in group.panels(ablated)}
    if group.strict:
        sizes |= {ABLATION_SIZE, SIZES[0]}
    return [CellCheck(size_text(size), _table(group, size), size) for size in sorted(sizes)]


@claim(
    "C21",
    "2-layer Mamba does without its convolution",
    setting="any (length, pairs) and width of A.2; 2 layers",
    figure="table2",
    roles=(MAMBA_2_NO_CONV,),
    thresholds=(SOLVED,),
    runs=(
        f"table2 --set {MAMBA_WITHOUT_CONV} --set model.depth=2",
        f"table2 --set {MAMBA_WITHOUT_CONV} --set model.depth=2 --set task.length=64 --set "
        "task.pairs=4",
    ),
    coverage=UNNAMED,
    models=(MAMBA_2_NO_CONV,),
    caveat="The study says so in a sentence and does not name the setting.",
)
def two_layers_need_no_convolution(group: Group) -> list[CellCheck]:
    """In each cell that was searched, 2-layer Mamba without convolution reaches SOLVED."""
    panels = {*group.panels([MAMBA_2_NO_CONV])}
    if group.strict:
        panels |= {ABLATION_PANEL, Panel(SIZES[0], ABLATION_PANEL.width)}
    return [
        at_panel(p, reaches(group.score(MAMBA_2_NO_CONV, p), SOLVED), MAMBA_2_NO_CONV)
        for p in sorted(panels)
    ]


def _table(group: Group, size: Size) -> Check:
    checks = [_solves(group, role, size) for role in group.roles(SOLVE)] + [
        _fails(group, role, size) for role in group.roles(FAIL)
    ]
    on_v = group.roles((CONV_V_SAME, CONV_V_CAUSAL))
    if on_v:
        either = [_solves(group, role, size) for role in on_v]
        checks.append(some(either, text=join(check.text for check in either)))
    distinct = {role.name for role in group.subjects}
    if not group.strict and len(distinct) < 2:
        return Check(None, "", "at least two of the ablated models")
    return every(checks, text=_as_printed(checks))


def _as_printed(checks: list[Check]) -> str:
    """All rows of the table, those that contradict the study first."""
    texts = {
        holds: join([check.text for check in checks if check.holds is holds], limit=len(checks))
        for holds in (False, True)
    }
    words = {False: "otherwise than printed", True: "as printed"}
    return ". ".join(f"{words[holds]}: {text}" for holds, text in texts.items() if text)


def _solves(group: Group, role: Role, size: Size) -> Check:
    panels = _panels(group, role, size)
    return some((reaches(group.score(role, panel), SOLVED) for panel in panels), lacks=role.name)


def _fails(group: Group, role: Role, size: Size) -> Check:
    checks = []
    for panel in _panels(group, role, size):
        subject = group.find(role, **panel._asdict())
        most = failure(subject) if subject else TWO_PERCENT
        checks.append(not_above(group.score(role, panel), most))
    return every(checks, lacks=role.name)


def _panels(group: Group, role: Role, size: Size) -> list[Panel]:
    """The panels of this size at which the role was trained; if there are none and the group is
    strict, the panel with the width of the preset.
    """
    trained = [panel for panel in group.panels([role]) if panel.size == size]
    return trained or ([Panel(size, ABLATION_PANEL.width)] if group.strict else [])
