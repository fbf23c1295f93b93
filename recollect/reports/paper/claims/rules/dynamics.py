"""Whether the curves of 1-layer models are smooth or have a sudden change of the loss (C18, C19),
and whether the models fit their training set (C27).
"""

import math
import statistics
from collections.abc import Sequence

from recollect.analysis import Bump, Cell, bumps, count_text, plateaus, rate_text, score_text
from recollect.analysis.curves import SCORE_GAIN
from recollect.reports.paper.claims.checks import (
    Check,
    Measure,
    at_least,
    below,
    opposite,
)
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.coverage import UNNAMED, CellCheck, at_panel
from recollect.reports.paper.claims.floors import one_pair_most
from recollect.reports.paper.claims.groups import Group, Panel, Subject, size_text, subject_text
from recollect.reports.paper.claims.measures import search_lacks
from recollect.reports.paper.claims.roles import ATTENTION_1, HYENA_1, MAMBA_1, Role
from recollect.reports.paper.claims.thresholds import (
    FAILS,
    FLAT,
    LEAST_EVALUATIONS,
    MOST_NOISE,
    NOISES,
    ONE_PAIR_MOST,
    SOLVED,
)
from recollect.reports.paper.claims.wanted import Want
from recollect.reports.paper.study import DYNAMICS_SIZE, SIZES, WIDTHS

# The widths of Fig. 6 as in the preset, and further ones for the second width of each model.
FIG6_WIDTHS = {HYENA_1: (512, 1024, 2048), MAMBA_1: (64, 128, 256), ATTENTION_1: (2048, 1024)}
MORE = (("hyena", 1024), ("mamba", 128), ("attention", 1024))
LEAST_WIDTHS = 2
AT_PLATEAU = 0.3  # nats
SIZE_NOTE = "(256,16) is the figure's title in earlier versions; this one lost it."


def _at_dynamics_size(subject: Subject) -> bool:
    return subject.size == DYNAMICS_SIZE


@claim(
    "C18",
    "1-layer Hyena's and Mamba's loss falls along with a gain in accuracy, up to the top; "
    "attention's changes suddenly without one",
    setting="(256,16), 1 layer, best rate; every Hyena and Mamba that solves it, attention at "
    "widths 1024 and 2048",
    figure="fig6",
    roles=(HYENA_1, MAMBA_1, ATTENTION_1),
    thresholds=(SOLVED, LEAST_EVALUATIONS, NOISES),
    runs=(
        "fig6",
        *(f"fig6 --set model.mixer={name} --set model.width={width}" for name, width in MORE),
    ),
    fits=_at_dynamics_size,
    caveat=f"{SIZE_NOTE} It shows the narrowest Hyena and Mamba that solve it and the widest "
    "attention; a second width of each is asked for here. Narrow attention is not: at width 64 its "
    "loss falls smoothly and never comes near ln K. The caption calls the curves of Hyena and "
    'Mamba "smooth", the text of section 6 sees "a significant loss bump" in Mamba: whether its '
    "loss changes suddenly is C19.",
)
def only_attention_bumps(group: Group) -> list[CellCheck]:
    """Each Hyena and Mamba that reaches SOLVED shows no sudden loss change without a gain in most
    of its seeds, each attention shows one in most; two widths of each model at least. What is
    sudden is defined in analysis/curves.py. A gain is a rise of the score by a tenth above chance;
    a rise that exceeds a tenth by less than NOISES standard errors says nothing.
    """
    cells = []
    for role in group.roles((HYENA_1, MAMBA_1, ATTENTION_1)):
        shown = _shown(group, role)
        cells += [_cell(role, s, _gains(group, role, s, role is not ATTENTION_1)) for s in shown]
        cells += _wider(group, role, shown)
    return cells


@claim(
    "C19",
    "1-layer Mamba's loss has a significant bump (section 6)",
    setting="(256,16), 1 layer, best rate, every Mamba that solves it",
    figure="fig6",
    roles=(MAMBA_1,),
    thresholds=(SOLVED, LEAST_EVALUATIONS),
    runs=("fig6 --set model.mixer=mamba --set 'sweep.model.width=[64,128]'",),
    fits=_at_dynamics_size,
    contradiction="The study contradicts itself: its text reports a bump, the caption of Fig. 6 "
    "calls Mamba's curve smooth. "
    f'Judged is the text; "contradicted" is the caption\'s reading. {SIZE_NOTE}',
)
def mamba_bumps(group: Group) -> list[CellCheck]:
    """Each Mamba that reaches SOLVED shows a sudden change of the loss in most of its seeds, with
    or without a gain in accuracy; two widths at least.
    """
    shown = _shown(group, MAMBA_1)
    cells = [_cell(MAMBA_1, s, _bumps_in_most(group, MAMBA_1, s)) for s in shown]
    return [*cells, *_wider(group, MAMBA_1, shown)]


@claim(
    "C27",
    "1-layer attention fails to fit even its training set",
    setting="any (length, pairs) and width of A.2, 1 layer",
    figure="fig6",
    roles=(ATTENTION_1,),
    thresholds=(FAILS, ONE_PAIR_MOST),
    runs=("fig3 --set model.mixer=attention --set model.width=64",),
    coverage=UNNAMED,
    models=(ATTENTION_1,),
    caveat="Section 1 says so without naming a setting. Rows that were trained before the score on "
    "training rows was stored say nothing.",
)
def attention_does_not_fit(group: Group) -> list[CellCheck]:
    """In each cell the score on training rows is below FAILS (or the upper bound of C10, where it
    is higher) in the mean over seeds, at every rate.
    """
    panels = {*group.panels([ATTENTION_1])}
    if group.strict:
        panels |= {Panel(size, WIDTHS[0]) for size in (SIZES[0], DYNAMICS_SIZE)}
    return [at_panel(p, _fits(group, p), ATTENTION_1) for p in sorted(panels)]


def _fits(group: Group, panel: Panel) -> Check:
    subject = group.find(ATTENTION_1, **panel._asdict())
    wanted = group.score(ATTENTION_1, panel)
    whole_grid = tuple(want.to_show_the_best(in_full=True) for want in wanted.wants)
    if subject is None or not group.trusted_cell(subject).scored_rates:
        return Check(None, "", wanted.lacks, wants=whole_grid)
    name = subject_text(ATTENTION_1, subject)
    fitted = _fitted(subject.cell)
    if len(fitted) < len(subject.cell.scored_rates):
        return Check(None, "", f"{name}: its score on training rows, at every rate")
    # A rate with few seeds may show that the model fits somewhere, but does not settle it.
    surely = max(fitted[rate.lr] for rate in group.trusted_cell(subject).scored_rates)
    top = max(fitted, key=fitted.__getitem__)
    text = (
        f"{name}: up to {score_text(fitted[top])} on training rows (at {rate_text(top)}, best of "
        f"{count_text(len(fitted), 'rate')})"
    )
    lacking = search_lacks(subject.cell) if group.strict else ""
    most = 1.0 if lacking else fitted[top]
    told = f"{name}: {lacking or f'more seeds at {rate_text(top)}'}"
    found = Measure(surely, most, text, told, whole_grid)
    return below(found, max(FAILS, one_pair_most(subject)))


def _fitted(cell: Cell) -> dict[float, float]:
    """By rate: the mean score on training rows, where every run of the rate has one."""
    fitted = {}
    for rate in cell.scored_rates:
        scores = [row.train_score for row in rate.scored if row.train_score is not None]
        if scores and len(scores) == len(rate.scored):
            fitted[rate.lr] = statistics.fmean(scores)
    return fitted


def _cell(role: Role, subject: Subject, check: Check) -> CellCheck:
    return at_panel(Panel(subject.size, subject.width), check, role)


def _shown(group: Group, role: Role) -> list[Subject]:
    """The subjects whose curves are examined, one per width.

    For attention these are the figure's widths (any width if the group is not strict), for the
    other models those that solve the task. If several subjects of one width differ in their
    evaluations, the one with the most evaluations counts.
    """
    own = [(subject, group.trusted_cell(subject).best) for subject in group.subjects.get(role, ())]
    if role is ATTENTION_1:
        wanted = FIG6_WIDTHS[role]
        kept = [s for s, best in own if best and (s.width in wanted or not group.strict)]
    else:
        kept = [s for s, best in own if best and best.mean >= SOLVED]
    by_width: dict[int, Subject] = {}
    for subject in sorted(kept, key=lambda s: (_evaluations(s), s.cell.scored_runs)):
        by_width[subject.width] = subject
    return [by_width[width] for width in sorted(by_width)]


def _wider(group: Group, role: Role, shown: list[Subject]) -> list[CellCheck]:
    """Open checks that request further widths until there are two."""
    tried = {subject.width for subject in shown}
    left = [width for width in FIG6_WIDTHS[role] if width not in tried]
    if not group.strict:
        return (
            [] if shown else [CellCheck(role.name, Check(None, "", f"{role.name} that solves it"))]
        )
    cells = []
    for width in left[: max(0, LEAST_WIDTHS - len(shown))]:
        panel = Panel(DYNAMICS_SIZE, width)
        want = Want(role, DYNAMICS_SIZE, width, 1, preset="fig6")
        lacks = f"{role.name} {size_text(DYNAMICS_SIZE)} width {width} with its curves"
        cells.append(at_panel(panel, Check(None, "", lacks, wants=(want,)), role))
    return cells


def _evaluations(subject: Subject) -> int:
    return int(subject.flat.get("train.evaluations", 0))


def _gains(group: Group, role: Role, subject: Subject, wanted: bool) -> Check:
    """Check that the score rises along every bump in more than half of the seeds at the best rate,
    or, if not `wanted`, that more than half show a bump along which it does not.

    The seed in the middle decides, in the order of each seed's smallest gain along a bump. The
    noise of seeds may be part of a gain.
    """
    found = _found_bumps(group, role, subject)
    if isinstance(found, Check):
        return found
    without = [[bump for bump in own if not bump.gained] for _, own in found]
    text = _counted(group, role, subject, found, without, "a bump without gain")
    gains = sorted(min((bump.gain for bump in own), default=math.inf) for _, own in found)
    middle = gains[(len(gains) - 1) // 2 if wanted else len(gains) // 2]
    score = group.score(role, Panel(subject.size, subject.width), depth=subject.depth)
    least = middle - min(NOISES * score.noise, MOST_NOISE)
    lacks = f"{subject_text(role, subject)}: more seeds, since a gain of {middle:.2f} may be noise"
    check = at_least(Measure(least, middle, text, lacks), SCORE_GAIN)
    return check if wanted else opposite(check)


def _bumps_in_most(group: Group, role: Role, subject: Subject) -> Check:
    """Check that more than half of the seeds at the best rate have a bump."""
    found = _found_bumps(group, role, subject)
    if isinstance(found, Check):
        return found
    text = _counted(group, role, subject, found, [own for _, own in found], "a bump")
    share = sum(bool(own) for _, own in found) / len(found)
    return Check(share > 0.5, text, margin=share - 0.5)


SeedBumps = tuple[int, list[Bump]]  # a seed and the bumps of its curve


def _found_bumps(group: Group, role: Role, subject: Subject) -> list[SeedBumps] | Check:
    """The bumps of each seed at the best rate, or an open check that says what is missing."""
    best, name = group.trusted_cell(subject).best, subject_text(role, subject)
    assert best is not None
    better = subject.cell.best
    if group.strict and better and better.mean > best.mean + FLAT:
        return Check(None, "", f"{name}: more seeds at its best rate, {rate_text(better.lr)}")
    curves = [(row, group.curves.get(row.run_id, ())) for row in best.scored]
    found = [
        (int(row.spec["seed"]), bumps(curve, row.score_name, row.chance))
        for row, curve in curves
        if curve
    ]
    if not found:
        return Check(None, "", f"{name}: its curves")
    if group.strict and _evaluations(subject) < LEAST_EVALUATIONS:
        return Check(None, "", f"{name}: {LEAST_EVALUATIONS:g} evaluations or more")
    return found


def _counted(
    group: Group,
    role: Role,
    subject: Subject,
    found: Sequence[SeedBumps],
    shown: Sequence[Sequence[Bump]],
    kind: str,
) -> str:
    """How many seeds show such a bump, with the first of them."""
    best = group.trusted_cell(subject).best
    assert best is not None
    count = sum(map(bool, shown))
    text = (
        f"{subject_text(role, subject)} at {rate_text(best.lr)}: {count} of {len(found)} seeds "
        f"show {kind}"
    )
    for (seed, _), own in zip(found, shown, strict=True):
        if own:
            return f"{text}, seed {seed} {_told(own[0], subject)}"
    return text


def _told(bump: Bump, subject: Subject) -> str:
    """A bump in words, with the plateau at which it ends, if it ends at one."""
    levels = plateaus(subject.task)
    near = [name for name, level in levels.items() if abs(level - bump.loss_after) <= AT_PLATEAU]
    level = f" ({near[0]} = {levels[near[0]]:.2f})" if near else ""
    return (
        f"from step {bump.start_step:,} to {bump.end_step:,}: loss {bump.loss_before:.2f} to "
        f"{bump.loss_after:.2f}{level}, score {bump.score_before:.2f} to {bump.score_after:.2f}"
    )
