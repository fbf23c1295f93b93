"""What a sparse grid of rates misses, and the official results it gave (C4, C5, C8, C25)."""

import math
from collections.abc import Sequence
from dataclasses import replace

from recollect.analysis import (
    Cell,
    Rate,
    deviation,
    is_sparse_rate,
    rate_text,
    score_text,
    sparse_best,
)
from recollect.analysis.windows import ZOOLOGY_RATES, best_index
from recollect.reports.paper import zoology
from recollect.reports.paper.claims.checks import (
    Measure,
    at_least,
    below,
    difference,
    every,
    not_above,
    not_below,
    reaches,
)
from recollect.reports.paper.claims.claim import claim
from recollect.reports.paper.claims.coverage import (
    SOME_UNNAMED,
    CellCheck,
    at_panel,
    count_cells,
)
from recollect.reports.paper.claims.groups import Group, Panel, subject_text, unknown
from recollect.reports.paper.claims.measures import redrawn_score, search_lacks, trusted
from recollect.reports.paper.claims.roles import (
    ATTENTION_2,
    H3_2,
    HYENA_2,
    MAMBA_2,
    RECURRENT_2,
    RWKV_2,
    Role,
)
from recollect.reports.paper.claims.rules.width import FOUR_RECURRENT
from recollect.reports.paper.claims.rules.windows import TO_TRY, UNSTATED, unsolved
from recollect.reports.paper.claims.thresholds import (
    BETTER,
    FLAT,
    MISSED,
    NOISES,
    SEED_NOISE,
    SOLVED,
    STAR_SLACK,
    WINDOW,
)
from recollect.reports.paper.study import SIZES

REPLICATION = (
    "The replication is the same recipe searched at Zoology's four rates alone "
    f"({', '.join(rate_text(rate) for rate in ZOOLOGY_RATES)}), not Zoology's own code."
)
UP_TO_512 = "'sweep.model.width=[64,128,256,512]'"
THREE_WITH_STARS = """'sweep.model.mixer=["h3","hyena","rwkv4"]'"""
STARS = (
    "Stars are digitised (to 0.02), and Zoology's code gave all models but attention four layers, "
    "not two."
)


@claim(
    "C4",
    "Zoology's grid of four rates can miss the window altogether",
    setting="2-layer Mamba and Hyena, any (length, pairs) of A.2, widths 64 to 512",
    figure="fig1",
    roles=(MAMBA_2, HYENA_2),
    thresholds=(MISSED, WINDOW),
    runs=(f"""fig2 --set 'sweep.model.mixer=["hyena","mamba"]' --set {UP_TO_512}""",),
    coverage=SOME_UNNAMED,
    models=(MAMBA_2, HYENA_2),
    fits=lambda subject: subject.size in SIZES and subject.width in zoology.STAR_WIDTHS,
    caveat=f"{UNSTATED} {REPLICATION}",
)
def sparse_grid_misses(group: Group) -> list[CellCheck]:
    """There is a cell whose best score over the four rates is below MISSED, and over all rates
    reaches the window's line. A cell that never reaches it has no window to miss and says nothing.
    """
    cells = []
    for role in (MAMBA_2, HYENA_2):
        tried = TO_TRY[role] if group.strict else ()
        for panel in sorted({*group.panels([role]), *tried}):
            if group.reaches(role, panel) is False:
                cells.append(at_panel(panel, unsolved(group, role, panel), role))
                continue
            missed = below(_sparse(group, role, panel), MISSED)
            found = at_least(group.score(role, panel), group.tau)
            text = _beside(group, role, panel)
            cells.append(at_panel(panel, every([missed, found], text=text), role))
    return cells


@claim(
    "C5",
    "For recurrent models a finer grid is never worse than Zoology's and better on average",
    setting="2-layer Hyena, Mamba, H3, RWKV, all four (length, pairs) of A.2, widths 64 to 512",
    figure="fig11",
    roles=RECURRENT_2,
    thresholds=(SEED_NOISE, BETTER, NOISES),
    runs=(f"fig11 --set {FOUR_RECURRENT} --set model.positions=none --set {UP_TO_512}",),
    caveat=f"{REPLICATION} The more rates, the higher the best of them by luck alone; so each "
    "seed is scored at the rate that the other seeds choose.",
)
def finer_grid_is_better(group: Group) -> list[CellCheck]:
    """Each seed is scored at the rate that the other seeds choose. The score on the fine grid less
    that on the four rates is at least minus SEED_NOISE in each cell, NOISES standard errors allowed
    for, and at least BETTER in the mean over all cells. While some cells are not known, none counts
    as holding unless the mean over the known ones is at least BETTER.
    """
    places = [
        (role, panel)
        for role in group.roles(RECURRENT_2)
        for panel in group.panels([role], SIZES, zoology.STAR_WIDTHS)
    ]
    gains = [_gain(group, role, panel) for role, panel in places]
    if not gains:
        return []
    known = [gain for gain in gains if gain.text]
    so_far = _mean([gain.low for gain in known]) if known else 0.0
    shown = f"mean gain {so_far:+.3f} over {count_cells(len(known))}" if known else ""
    # Pooled: a single lost seed makes gain and error of its own cell equal, which excuses any loss.
    noise = math.sqrt(_mean([gain.noise**2 for gain in known])) if known else 0.0
    mean = Measure(_mean([gain.low for gain in gains]), _mean([gain.high for gain in gains]), shown)
    cells = [
        at_panel(panel, not_below(replace(gain, noise=noise), -SEED_NOISE), role)
        for (role, panel), gain in zip(places, gains, strict=True)
    ]
    on_average = at_least(mean, BETTER)
    if on_average.holds is None and so_far < BETTER:
        cells = [_not_better(cell) for cell in cells]
        on_average = replace(on_average, text=f"{shown}, wanted {BETTER:+g}" if shown else "")
    return [CellCheck("mean over all cells", on_average, is_counted=False), *cells]


@claim(
    "C8",
    "Zoology's official numbers are lower bounds for tuned Hyena, H3 and RWKV",
    setting="2 layers, all four (length, pairs) of A.2, widths 64 to 512",
    figure="fig11",
    roles=(HYENA_2, H3_2, RWKV_2),
    thresholds=(STAR_SLACK,),
    runs=(f"fig11 --set {THREE_WITH_STARS} --set model.positions=none --set {UP_TO_512}",),
    origin="ours",
    caveat=f"The study draws the official numbers and says no such thing of them. {STARS}",
)
def stars_are_lower_bounds(group: Group) -> list[CellCheck]:
    """In each cell with an official value above STAR_SLACK the best score is at least that value
    less STAR_SLACK.
    """
    cells = []
    for role in group.roles((HYENA_2, H3_2, RWKV_2)):
        for panel in group.panels([role], SIZES, zoology.STAR_WIDTHS):
            star = zoology.star(role.mixer, *panel.size, panel.width)
            if star and star.accuracy > STAR_SLACK:  # no score is below a smaller star less slack
                score = group.score(role, panel)
                if score.text:
                    official = f"{'about ' if star.hidden else ''}{star.accuracy:g}"
                    score = replace(score, text=f"{score.text} against {official}")
                cells.append(at_panel(panel, at_least(score, star.accuracy - STAR_SLACK), role))
    return cells


@claim(
    "C25",
    "Attention's official, replicated and finely searched curves coincide",
    setting="2 layers, all four (length, pairs) of A.2, widths 64 to 512; the official values are "
    "all 1",
    figure="fig2",
    roles=(ATTENTION_2,),
    thresholds=(SOLVED, FLAT, NOISES),
    runs=(f"fig2 --set model.mixer=attention --set {UP_TO_512}",),
    caveat=REPLICATION,
)
def attention_needs_no_search(group: Group) -> list[CellCheck]:
    """In each cell attention's best score reaches SOLVED, over all rates and over Zoology's four,
    and the two differ by at most FLAT, NOISES standard errors allowed for.
    """
    cells = []
    for panel in group.panels([ATTENTION_2], SIZES, zoology.STAR_WIDTHS):
        fine, four = group.score(ATTENTION_2, panel), _sparse(group, ATTENTION_2, panel)
        checks = [
            reaches(fine, SOLVED),
            reaches(replace(four, noise=fine.noise), SOLVED),
            not_above(difference(fine, four), FLAT),
        ]
        cells.append(at_panel(panel, every(checks)))
    return cells


def _not_better(cell: CellCheck) -> CellCheck:
    """The cell, open if it holds: not to be worse is only half of the claim."""
    return replace(cell, check=replace(cell.check, holds=None)) if cell.check.holds else cell


def _sparse(group: Group, role: Role, panel: Panel) -> Measure:
    """The best score over Zoology's four rates. Until all four have been tried, the best of the
    tried ones is a lower bound.
    """
    subject = group.find(role, **panel._asdict())
    if subject is None:
        return unknown(role, panel._asdict(), 1.0)
    cell, name = subject.as_trained, subject_text(role, subject)
    cell = trusted(cell) if group.strict else cell
    best = sparse_best(cell)
    if best is None:
        tried = [rate.mean for rate in cell.scored_rates if is_sparse_rate(rate.lr)]
        lacks = f"{name}: all of Zoology's four rates"
        text = f"{name}: at least {score_text(max(tried))} at Zoology's rates" if tried else ""
        wanted = group.score(role, panel)
        found = replace(wanted, low=max(tried, default=0.0), high=1.0, text=text, lacks=lacks)
    else:
        text = f"{name}: {score_text(best.mean)} at the best of Zoology's rates"
        found = Measure(best.mean, best.mean, text)
    # The same draw as that of the score over all rates, which is compared with it.
    return redrawn_score(found, subject.draw.at(is_sparse_rate)) if subject.draw else found


def _beside(group: Group, role: Role, panel: Panel) -> str:
    four, fine = _sparse(group, role, panel), group.score(role, panel)
    least = "at least " if four.low < four.high else ""
    return (
        f"{fine.text}, {least}{score_text(four.low)} at the best of Zoology's rates"
        if four.text and fine.text
        else ""
    )


def _gain(group: Group, role: Role, panel: Panel) -> Measure:
    subject = group.find(role, **panel._asdict())
    if subject is None:
        return replace(unknown(role, panel._asdict(), 1.0), low=-1.0)  # the whole grid
    cell, name = group.trusted_cell(subject), subject_text(role, subject)
    lacks = search_lacks(cell) if group.strict else ""
    four = held_out([rate for rate in cell.scored_rates if is_sparse_rate(rate.lr)])
    if sparse_best(cell) is None or not four:
        lacks = "all of Zoology's four rates, with two seeds or more"
    fine = held_out(cell.scored_rates)
    if lacks or not fine or not four:
        told = f"{name}: {lacks or 'two seeds or more'}"
        whole = tuple(replace(want, search="") for want in group.wants(role, subject))
        return Measure(-1.0, 1.0, "", told, wants=whole)
    gains = [fine[seed] - four[seed] for seed in fine if seed in four]
    gain = _mean(gains)
    scores = [score_text(_mean([*grid.values()])) for grid in (four, fine)]
    text = f"{name}: gain {gain:+.3f}, {scores[0]} at Zoology's rates and {scores[1]} at all"
    noise = deviation(gains) / math.sqrt(len(gains))
    each = f"{_seeds(cell)}, each at the rate that the others choose"
    return Measure(gain, gain, f"{text} ({each})", noise=noise)


def held_out(rates: Sequence[Rate]) -> dict[int, float]:
    """By seed: its score at the best rate of the other seeds; empty for fewer than two seeds."""
    seeds = set.intersection(*(set(rate.scores) for rate in rates)) if rates else set()
    if len(seeds) < 2:
        return {}
    scores = {}
    for seed in sorted(seeds):
        liked = [
            math.fsum(rate.scores[other] for other in seeds if other != seed) for rate in rates
        ]
        scores[seed] = rates[best_index(liked)].scores[seed]
    return scores


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _seeds(cell: Cell) -> str:
    return f"{min(len(rate.scores) for rate in cell.scored_rates)} seeds"
