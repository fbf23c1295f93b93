"""Writes docs/results.md, and its pictures into docs/results/, from the stored rows of the study's
size: python docs/results.py [ROOT].

Every number and every sentence with a number comes from the rows; nothing is typed by hand. Run
docs/gallery.py first: the study's own figures are shown from there.
"""

import contextlib
import sys
from collections import Counter
from pathlib import Path

from gallery import comparing, picture_name
from page_parts import HERE, shown, table, wrapped, write_png

from recollect.analysis import (
    count_text,
    group_cells,
    ranking,
    rate_text,
    score_text,
    summarise,
)
from recollect.analysis.seeds import TAUS, windows_by_threshold
from recollect.errors import SpecError
from recollect.plotting.coordinates import find_coordinates
from recollect.plotting.text import mixer_title
from recollect.reports.paper.causes import find_causes
from recollect.reports.paper.claims.asking import judge_results
from recollect.reports.paper.evidence import join_stores, load_stores, rows_by_recipe
from recollect.reports.paper.figures import FIGURES, TABLES
from recollect.reports.paper.figures.all_figures import OWN_FIGURES
from recollect.reports.pictures import PictureRequest, Source
from recollect.reports.pictures.shown import Shown
from recollect.spec.cell import cell_id

HEAD = """# Results at the study's size

What the stored rows of the study's own size say: its vocabulary, its lengths, its number of rows
and epochs. Written by `make gallery` from `results/`; nothing here was typed by hand. The recipe
(the choices that the study leaves open) is part of every result: a whole recipe has its name, a run
that differs from one says in what.

W(τ) is a window: the decades of learning rate, contiguous around the best one, where the mean score
over seeds is at least τ; ≥ where the grid ended first. In square brackets: 95 % bootstrap intervals
over seeds, where every rate has three or more.
"""
BOUND = "the difference is a bound of one side alone"
NONE = "–"
UNDECIDED = "not enough data"


def page(stores, pictures, save=write_png):
    """The whole page; `save` gets every picture's path and figure."""
    full = [store for store in stores if not store.is_reduced]
    results = join_stores(full)
    verdicts = judge_results(results, [store.folder for store in full])
    parts = [
        HEAD,
        claims_section(verdicts),
        unlike_section(verdicts),
        windows_section(results, pictures, save),
        causes_section(results, pictures, save),
        figures_section(results, verdicts),
        cost_section(full),
    ]
    return wrapped("\n".join(part for part in parts if part))


# ---- claims ----


def claims_section(verdicts):
    """Verdicts by recipe, claim by claim, and in how many of each kind they end."""
    text = "## The study's claims\n\n"
    text += "Verdicts by recipe; in brackets the share of resampled seeds with the same verdict."
    text += (
        " [The rules](claims.md) are code; `recollect claims DIR...` prints the numbers and what"
    )
    text += " to train next.\n\n"
    for recipe, own in verdicts.items():
        counts = Counter(verdict.outcome for verdict in own)
        order = ("reproduced", "holds in part", "contradicted", "not enough data")
        kinds = ", ".join(f"{counts[kind]} {kind}" for kind in order if counts[kind])
        text += f"- `{recipe}`: {count_text(len(own), 'claim')}, {kinds}.\n"
    lines = [
        (
            beside[0].claim.name,
            beside[0].claim.statement + (" (ours)" if beside[0].claim.origin == "ours" else ""),
            *map(verdict_text, beside),
        )
        for beside in zip(*verdicts.values(), strict=True)
    ]
    return f"{text}\n{table(('claim', 'what it says', *verdicts), lines)}"


def verdict_text(verdict):
    firm = f" ({verdict.firmness:.0%})" if verdict.firmness is not None else ""
    hangs = f"; {verdict.disagreement}" if verdict.disagreement else ""
    return f"{verdict.words}{firm}{hangs}"


def unlike_section(verdicts):
    """What did not come out as the study says, with the numbers and what may explain it; and the
    numbers of what does.
    """
    told = [verdict for own in verdicts.values() for verdict in own if verdict.outcome != UNDECIDED]
    unlike = [verdict for verdict in told if verdict.tally.failing]
    like = [verdict for verdict in told if not verdict.tally.failing]
    text = "## What did not reproduce\n"
    if not unlike:
        text += "\nNothing so far, where there are rows enough to say.\n"
    text += "".join(verdict_section(verdict, verdicts) for verdict in unlike)
    if like:
        text += "\n## What holds so far\n\n"
        text += "".join(
            f"- {one.claim.name} under `{one.recipe}`, {one.words}: {numbers(one)}\n"
            for one in like
        )
    return text


def verdict_section(verdict, verdicts):
    claim = verdict.claim
    text = f"\n### {claim.name} under {verdict.recipe}: {verdict.words}\n\n"
    text += f"- The study: {claim.statement}.\n- Measured: {numbers(verdict)}\n"
    reasons = [verdict.disagreement, verdict.remark, claim.contradiction, claim.caveat]
    reasons = dict.fromkeys(sentence_of(reason) for reason in reasons if reason)
    other = [
        f"Under {recipe}: {verdict_text(twin)}."
        for recipe, own in verdicts.items()
        for twin in own
        if recipe != verdict.recipe and twin.claim is claim and twin.outcome != UNDECIDED
    ]
    return text + "".join(f"- {reason}\n" for reason in [*reasons, *other])


def numbers(verdict):
    return sentence_of(verdict.numbers.split("; missing:")[0]) if verdict.numbers else NONE


def sentence_of(text):
    """A remark as a sentence."""
    return " ".join(text.split()).rstrip(".") + "."


# ---- what was trained ----


def cost_section(stores):
    """One line per store: what it holds, where and how it was trained, and for how long."""
    head = ("store", "runs", "models", "tasks", "recipe", "precision", "device", "minutes")
    lines = [cost_line(store) for store in stores]
    minutes = sum(store.minutes for store in stores)
    runs = sum(len(store.ended) for store in stores)
    planned = sum(len(store.rows) for store in stores)
    lines.append(("all", of(runs, planned), *[""] * 5, f"{minutes:,.0f}"))
    versions = sorted(
        {
            ", ".join(f"{name} {version}" for name, version in sorted(row.versions.items()))
            for store in stores
            for row in store.ended
        }
    )
    return (
        "## What was trained\n\n"
        + table(head, lines, numbers=(1, 7))
        + "\nMinutes are those of the device: a run counts with its share of the time of all"
        " that trained beside it. Versions: " + "; ".join(versions) + ".\n"
    )


def cost_line(store):
    rows = store.ended
    cells = group_cells(rows)
    places = find_coordinates(cells)
    return (
        f"`{shown(store.folder)}`",
        of(len(rows), len(store.rows)),
        ", ".join(dict.fromkeys(mixer_title(cell.mixer) for cell in cells)) or NONE,
        "; ".join(dict.fromkeys(place.task for place in places)) or NONE,
        "; ".join(rows_by_recipe(rows)) or NONE,
        ", ".join(sorted({row.spec["train"]["precision"] for row in rows})) or NONE,
        ", ".join(sorted({row.device for row in rows if row.device})) or NONE,
        f"{store.minutes:,.1f}",
    )


def of(done, planned):
    return f"{done:,}" if done == planned else f"{done:,} of {planned:,}"


# ---- windows ----


def windows_section(results, pictures, save):
    """Recipe by recipe: sentences that compare, tables of windows, and, where several models were
    trained, pictures of windows, rates and curves.
    """
    text = "## Windows\n\n"
    text += "G(4) is grid luck: the probability that a grid of four rates over 8/3 decades, shifted"
    text += " at random, has a rate in the window W(0.9).\n"
    for number, (recipe, rows) in enumerate(rows_by_recipe(results.rows).items(), start=1):
        if not any(row.has_result for row in rows):
            continue
        text += f"\n### Recipe: {recipe}\n\n"
        source = Source(recipe, rows, results.curves)
        if len({row.spec["model"]["mixer"]["name"] for row in rows if row.has_result}) > 1:
            for kind in ("windows", "rates", "curves"):
                file = pictures / f"{kind}-{number}.png"
                text += drawn(kind, source, file, save)
        text += windows_table(source)
    return text


def drawn(kind, source, file, save):
    try:
        save(file, PictureRequest(kind).draw(source))
    except SpecError as refusal:
        return f"{kind}: {' '.join(str(refusal).splitlines())}\n\n"
    return f"![{kind}]({file.parent.name}/{file.name})\n\n"


def windows_table(source):
    """Sentences that compare, and a line per cell, panel by panel, the widest window first."""
    head = ("task", "width", "layers", "model", "best score", "at rate")
    head += (*(f"W({tau:g})" for tau in TAUS), "from – to", "G(4)", "steps to solve", "seeds")
    sentences, lines = [], []
    for panel in Shown.of(source).panels():
        summaries = summarise([cell.runs for cell in panel.cells], source.curves)
        pairs = list(zip(panel.cells, summaries, strict=True))
        found = ranking([(cell.label, summary) for cell, summary in pairs])
        if found:
            title = f"{panel.title}: " if panel.title else ""
            sentences.append(f"- {title}{' '.join(found)}\n")
        pairs.sort(key=lambda pair: -width_of(pair[1]))
        lines += [window_line(cell, summary) for cell, summary in pairs]
    said = "".join(sentences) + "\n" if sentences else ""
    return said + table(head, lines, numbers=(1, 2, 4, 5, 6, 7, 8, 10, 11, 12))


def width_of(summary):
    return summary.window.decades if summary.window else -1.0 + summary.best.mean


def window_line(cell, summary):
    best, window = summary.best, summary.window
    scores = best.scores.values()
    spread = f" ({score_text(min(scores))} to {score_text(max(scores))})" if len(scores) > 1 else ""
    seeds = {len(rate.scores) for rate in cell.runs.scored_rates}
    return (
        cell.place.task,
        cell.place.width,
        cell.place.depth,
        cell.label,
        score_text(best.mean) + spread,
        rate_text(best.lr),
        *(
            width_text(found, len(cell.runs.scored_rates))
            for found in windows_by_threshold(cell.runs, TAUS)
        ),
        f"{rate_text(window.low)} – {rate_text(window.high)}" if window else NONE,
        f"{summary.luck:.0%}",
        f"{summary.steps_to_solve:,.0f}" if summary.steps_to_solve is not None else "never",
        str(max(seeds)) if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}",
    )


def width_text(found, rates):
    if not found.decades and (not found.interval or found.interval[1] < 0.005):
        return "none" if rates > 2 else f"none at {count_text(rates, 'rate')}"
    interval = f" [{found.interval[0]:.2f}, {found.interval[1]:.2f}]" if found.interval else ""
    return f"{'≥ ' if found.is_open else ''}{found.decades:.2f}{interval}"


# ---- the study's figures ----


def figures_section(results, verdicts):
    """The pictures of the gallery that rows of this size can fill, by recipe."""
    text = "## The study's figures and tables\n\n"
    text += "Beside what the study says of each; [the gallery](gallery.md) has the commands.\n"
    for name in [*FIGURES, *TABLES]:
        found = comparing(name, results.rows)
        if found:
            text += f"\n### {name}\n\n{statements(name, verdicts)}"
        for place, (recipe, rows) in enumerate(found.items()):
            text += f"\nRecipe `{recipe}`:\n\n"
            if name in TABLES:
                text += TABLES[name](rows, results.curves, "min-max").markdown()
            else:
                text += f"![{name}](gallery/{picture_name(name, place)})\n"
    return text


def statements(name, verdicts):
    """What the study says of a figure, with the verdicts."""
    lines = []
    for beside in zip(*verdicts.values(), strict=True):
        claim = beside[0].claim
        if claim.figure == name:
            told = "; ".join(
                f"{verdict.recipe}: {verdict.words}"
                for verdict in beside
                if verdict.outcome != UNDECIDED
            )
            lines.append(f"- {claim.name}: {claim.statement}. {told or UNDECIDED.capitalize()}.\n")
    return "".join(lines)


# ---- causes ----


def causes_section(results, pictures, save):
    """What a single change of a recipe did to a window, cell by cell."""
    rows, text = results.rows, "## What makes a window wide\n\n"
    head = ("from", "task", "width", "layers", "model", "change", "W before", "after")
    head += tuple(f"gain at {tau:g}" for tau in TAUS)
    causes = [cause for recipe in rows_by_recipe(rows) for cause in find_causes(rows, recipe)]
    once = {}
    for cause in causes:  # a pair of cells is shown from its plainer side alone
        once.setdefault(frozenset((id_of(cause.before), id_of(cause.after))), cause)
    if not once:
        return text + "No two cells differ in one setting alone yet.\n"
    text += "Pairs of cells that differ in one setting alone, and the decades of W that its change"
    text += f" gains or loses; (≥) where a grid ended inside a window, so that {BOUND}.\n\n"
    with contextlib.suppress(SpecError):  # no pair begins with a whole recipe yet
        save(pictures / "why.png", OWN_FIGURES["why"](rows, results.curves, "min-max"))
        text += f"![why]({pictures.name}/why.png)\n\n"
    lines = [cause_line(cause) for cause in once.values()]
    text += table(head, lines, numbers=(2, 3, 6, 7, 8, 9, 10)) + "\n"
    return text + cause_sentences(list(once.values())) + "\n"


def id_of(cell):
    return cell_id(cell.rows[0].spec)


def cause_line(cause):
    spec, first = cause.before.rows[0].spec, cause.gains[0]
    task, model = spec["task"], spec["model"]
    return (
        cause.recipe,
        f"{task['name']}, length {task.get('length', NONE)}, pairs {task.get('pairs', NONE)}",
        model["width"],
        model["depth"],
        mixer_title(cause.mixer),
        cause.text,
        f"{first.before:.2f}",
        f"{first.after:.2f}",
        *map(gain_text, cause.gains),
    )


def gain_text(gain):
    interval = f" [{gain.interval[0]:+.2f}, {gain.interval[1]:+.2f}]" if gain.interval else ""
    return f"{gain.decades:+.2f}{interval}{' (≥)' if gain.is_bound else ''}"


def cause_sentences(causes):
    """Which changes count: those whose interval leaves out zero."""
    firm = [cause for cause in causes if cause.gains[0].is_firm]
    open_ = sum(cause.gains[0].interval is None for cause in causes)
    lines = [
        f"- {mixer_title(cause.mixer)}, length {cause.before.rows[0].spec['task'].get('length')}: "
        f"{cause.text} {'gains' if cause.gains[0].decades > 0 else 'loses'} "
        f"{abs(cause.gains[0].decades):.1f} decades of W({cause.gains[0].tau:g})."
        for cause in firm
    ]
    if open_:
        lines.append(f"- {count_text(open_, 'change')} of {len(causes)} with too few seeds to say.")
    return "\n".join(lines or ["- No change is larger than what other seeds would make of it."])


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "results"
    for old in (HERE / "results").glob("*.png"):
        old.unlink()
    (HERE / "results.md").write_text(page(load_stores(root), HERE / "results"))
