"""Which part of a 1-layer model does it: convolution, gate, block (C20, C21)."""

from recollect.reports.paper.claims.checks import Check, at_least, at_most, every, join, some
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.floors import failure
from recollect.reports.paper.claims.groups import Group, Subject
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
from recollect.reports.paper.claims.thresholds import ONE_PAIR_MOST, SOLVED, TWO_PERCENT
from recollect.reports.paper.study import ABLATION_SIZE

MAMBA_WITHOUT_CONV = """'model.mixer={name="mamba",kernel=0}'"""
CONV_QKV, CONV_K, CONV_Q = (
    convolved_attention("qkv"),
    convolved_attention("k"),
    convolved_attention("q"),
)
CONV_V_SAME, CONV_V_CAUSAL = convolved_attention("v", "same"), convolved_attention("v", "causal")
SOLVE = (CONV_QKV, CONV_K, MAMBA_1, MAMBA_1_NO_GATE, S6_MLP_1)
FAIL = (ATTENTION_1, CONV_Q, MAMBA_1_NO_CONV)


def _at_ablation_size(subject: Subject) -> bool:
    return subject.size == ABLATION_SIZE


@claim(
    "C20",
    "In 1-layer models the convolution decides (Tables 2 and 3)",
    setting="(512,64), inferred from the 2 % of what fails; the width is not stated; 1 layer",
    figure="table3",
    roles=(*SOLVE, *FAIL, CONV_V_SAME, CONV_V_CAUSAL),
    thresholds=(SOLVED, TWO_PERCENT, ONE_PAIR_MOST),
    runs=("table3",),
    fits=_at_ablation_size,
    contradiction='The study contradicts itself on "Mamba w/o conv1d": 2 % '
    "in this version, solved in an earlier one; judged "
    'by this. "Conv on V" (99 %) cannot bind with a causal '
    "convolution, which sees the past at the key's place and not its value: the padding is not "
    "stated, both are measured and either may solve it.",
)
def convolution_decides(group: Group) -> Check:
    """At some width tried these reach SOLVED: attention with convolutions on QKV, on K, on V
    (either padding), Mamba, Mamba without gate, S6 + MLP. At every width these stay at TWO_PERCENT
    or the one-pair bound: attention, attention with one on Q, Mamba without convolution.
    """
    checks = [_solves(group, role) for role in group.roles(SOLVE)] + [
        _fails(group, role) for role in group.roles(FAIL)
    ]
    on_v = group.roles((CONV_V_SAME, CONV_V_CAUSAL))
    if on_v:
        either = [_solves(group, role) for role in on_v]
        checks.append(some(either, text=join(check.text for check in either)))
    distinct = {role.name for role in group.subjects}
    if not group.strict and len(distinct) < 2:
        return Check(None, "", "at least two of the ablated models")
    return every(checks, text=_as_printed(checks))


@claim(
    "C21",
    "2-layer Mamba does without its convolution",
    setting="(512,64), the width is not stated; 2 layers",
    figure="table2",
    roles=(MAMBA_2_NO_CONV,),
    thresholds=(SOLVED,),
    runs=(f"table2 --set {MAMBA_WITHOUT_CONV} --set model.depth=2",),
    fits=_at_ablation_size,
    caveat="The study says so in a sentence and does not name the setting.",
)
def two_layers_need_no_convolution(group: Group) -> Check:
    """At some width tried 2-layer Mamba without convolution reaches SOLVED."""
    return _solves(group, MAMBA_2_NO_CONV)


def _as_printed(checks: list[Check]) -> str:
    """All rows of the table, those that contradict it first."""
    texts = {
        holds: join([check.text for check in checks if check.holds is holds], limit=len(checks))
        for holds in (False, True)
    }
    words = {False: "otherwise than printed", True: "as printed"}
    return ". ".join(f"{words[holds]}: {text}" for holds, text in texts.items() if text)


def _solves(group: Group, role: Role) -> Check:
    return some(
        (at_least(group.score(role, panel), SOLVED) for panel in group.panels([role])),
        lacks=role.name,
    )


def _fails(group: Group, role: Role) -> Check:
    own = group.subjects.get(role, ())
    scores = [
        (group.score(role, size=subject.size, width=subject.width), failure(subject))
        for subject in own
    ]
    return every((at_most(score, most) for score, most in scores), lacks=role.name)
