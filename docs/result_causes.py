"""What the results page says about causes: the changes of a recipe, ranked by what they did to a
window; which of them are not settled, and which runs would settle them; and the ablations apart.
"""

import contextlib
import json

from page_parts import NONE, shown, table
from result_remedies import STORE, remedy_text, seeds_of

from recollect.analysis import count_text, score_text
from recollect.analysis.naming import join_name
from recollect.analysis.seeds import TAUS
from recollect.analysis.wording import and_text
from recollect.errors import SpecError
from recollect.plotting.text import mixer_title
from recollect.reports.paper.causes import find_causes, is_thin, ranked
from recollect.reports.paper.claims.thresholds import SAME_WINDOW
from recollect.reports.paper.evidence import rows_by_recipe
from recollect.reports.paper.figures.all_figures import OWN_FIGURES
from recollect.reports.paper.figures.why import THIN
from recollect.reports.paper.presets import PREFIX, read_preset
from recollect.spec.cell import cell_id

TITLE = "What makes a window wide"
LARGE = float(SAME_WINDOW)  # decades: a change that is told even if its seeds do not settle it
WHY = "why"  # the preset whose sweep changes one setting at a time
HEAD = ("change", "model", "task", "width", "layers", "from", "W before", "after")
HEAD += (*(f"gain at {tau:g}" for tau in TAUS), "beyond seeds")
MISSES = 0.05  # of 95 % intervals
NUMBERS = (3, 4, 6, 7, 8, 9, 10)  # columns of HEAD that stand on the right
# Of a difference, by whether the windows before and after are open, that is wider than measured.
BOUNDS = {
    (False, False): "",
    (False, True): " (≥)",
    (True, False): " (≤)",
    (True, True): " (?)",
}
NOTE = f"""The table is ranked by the size of the gain or loss at {TAUS[0]:g}; in square brackets:
where it should lie with other seeds (95 %). Beyond seeds: neither other seeds nor a wider grid
would turn its sign. (≥): a grid ended inside the window after the change, so that the difference is
at least as told; (≤): inside the one before; (?): inside both. {THIN}: one seed at most rates
inside the window, as said above."""


def all_causes(rows):
    """Every pair of cells once, from its plainer side."""
    once = {}
    for recipe in rows_by_recipe(rows):
        for cause in find_causes(rows, recipe):
            once.setdefault(frozenset((id_of(cause.before), id_of(cause.after))), cause)
    return list(once.values())


def choices_among(causes):
    """The changes of a recipe's choices, ranked; an ablation answers another question."""
    return [cause for cause in ranked(causes) if not cause.is_ablation]


# ---- in words ----


def largest_changes(causes):
    """The choice of a recipe that widens a window most and the one that narrows it most; first of
    those that are beyond their seeds, with a larger one that is not settled.
    """
    lines = []
    for sign, verb in ((1, "widens"), (-1, "narrows")):
        own = [cause for cause in choices_among(causes) if sign * cause.gains[0].decades > 0]
        if own:
            first = next((cause for cause in own if cause.gains[0].is_firm), own[0])
            text = f"What {verb} a window most so far: {change_text(first)}"
            if own[0] is not first:
                text += f"; larger, but not settled: {change_text(own[0])}"
            lines.append(f"{text}.")
    return lines


def change_text(cause):
    """Attention, dropout 0.1 to 0, (256, 16), 2 layers: 2.2† to 0.6 decades (from `study`)"""
    gain = cause.gains[0]
    before = width_text(cause.before, gain.before, gain.before_open, 1)
    after = width_text(cause.after, gain.after, gain.after_open, 1)
    unit = " decades" if gain.after else ""
    doubt = other_levels(cause) if gain.is_firm else f"; not settled: {doubt_text(cause)}"
    return f"{cause_title(cause)}: {before} to {after}{unit} (from `{cause.recipe}`{doubt})"


def answer(causes):
    """Sentences that answer the question of the section as far as the rows do."""
    own = choices_among(causes)
    firm = [cause for cause in own if cause.gains[0].is_firm]
    tested = sum(cause.gains[0].interval is not None for cause in own)
    verb = "is" if len(firm) == 1 else "are"
    text = f"{count_text(len(own), 'change')} of one choice measured so far; {len(firm)} of them"
    text += f" {verb} more than other seeds may do"
    if firm:
        text += f". Of {count_text(tested, 'interval')}, {MISSES * tested:.2g} would leave out 0 by"
        text += " chance alone, if no change did anything"
    lines = [f"{text}."]
    lines += [f"{effect_text(cause)}{other_levels(cause)}." for cause in firm]
    if own and not own[0].gains[0].is_firm:
        lines.append(f"The largest is not settled. {effect_text(own[0])}; {doubt_text(own[0])}.")
    lines += opposite_sizes(own)
    done, planned = tried_of_preset(causes)
    if done < planned:
        lines.append(
            f"{done} of the {planned} changes that `{PREFIX}{WHY}` tries have a known window on"
            " both sides; the rest is open. To go on:"
            f" `recollect run {PREFIX}{WHY} --out {shown(STORE)}`."
        )
    return lines


def other_levels(cause):
    """Whether it is beyond the seeds at the first level alone."""
    others = [f"{gain.tau:g}" for gain in cause.gains[1:] if not gain.is_firm]
    return f"; not settled at {and_text(others)}" if others else ""


def opposite_sizes(causes):
    """Changes whose gain has one sign at one size and the other at another."""
    groups = {}
    for cause in causes:
        key = cause.recipe, cause.mixer, cause.text, *shape_of(cause)
        groups.setdefault(key, []).append(cause)
    lines = []
    for own in groups.values():
        signs = {cause.gains[0].decades > 0 for cause in own if cause.gains[0].decades}
        if len(signs) == 2:
            told = [f"{cause.gains[0].decades:+.1f} at {size_of(cause)}" for cause in own]
            doubt = "" if all(c.gains[0].is_firm for c in own) else "; not all of it is settled"
            lines.append(
                f"One change may do opposite things at different sizes: {changed_text(own[0])}"
                f" gives {and_text(told)} decades{doubt}."
            )
    return lines


def tried_of_preset(causes):
    """How many changes of the preset were measured, and how many there are."""
    specs = {}
    for run in read_preset(WHY).runs:
        spec = json.loads(run.canonical_json())
        specs.setdefault(cell_id(spec), spec)
    bases = {
        (spec["model"]["mixer"]["name"], spec["task"]["length"], spec["task"]["pairs"])
        for spec in specs.values()
    }
    done = [cause for cause in causes if {id_of(cause.before), id_of(cause.after)} <= specs.keys()]
    return len(done), len(specs) - len(bases)


# ---- the section ----


def causes_section(results, causes, pictures, save):
    """What a single change of a recipe did to a window; and ablations, in a table of their own."""
    text = f"## {TITLE}\n\n"
    if not causes:
        return text + "No two cells differ in one setting alone yet.\n"
    own = choices_among(causes)
    if own:
        text += "Pairs of cells that differ in one choice of a recipe (how a model is trained), and"
        text += " the decades of W that this choice gains or loses.\n\n"
        text += "".join(f"- {line}\n" for line in answer(causes))
        text += f"\n{' '.join(NOTE.split())}\n\n{table(HEAD, map(cause_line, own), NUMBERS)}\n"
        with contextlib.suppress(SpecError):  # no pair begins with a whole recipe yet
            save(pictures / "why.png", OWN_FIGURES["why"](results.rows, results.curves, "min-max"))
            text += f"![why]({pictures.name}/why.png)\n\n"
        text += unsettled_section(own)
    ablations = [cause for cause in ranked(causes) if cause.is_ablation]
    if ablations:
        text += "\n### Ablations\n\nPairs that differ in a part of the mixer: another model, not"
        text += " another way to train it.\n\n" + table(HEAD, map(cause_line, ablations), NUMBERS)
    return text


def cause_line(cause):
    spec, first = cause.before.rows[0].spec, cause.gains[0]
    task, model = spec["task"], spec["model"]
    return (
        cause.text,
        mixer_title(cause.mixer),
        f"{task['name']}, length {task.get('length', NONE)}, pairs {task.get('pairs', NONE)}",
        model["width"],
        model["depth"],
        cause.recipe,
        width_text(cause.before, first.before, first.before_open),
        width_text(cause.after, first.after, first.after_open),
        *map(gain_text, cause.gains),
        firm_text(cause),
    )


def width_text(cell, decades, is_open, digits=2):
    """2.18†; ≥ 2.28; or none, best 0.885."""
    if not decades:
        return f"none, best {score_text(cell.best.mean)}"
    return f"{'≥ ' * is_open}{decades:.{digits}f}{THIN * is_thin(cell)}"


def gain_text(gain):
    interval = f" [{gain.interval[0]:+.2f}, {gain.interval[1]:+.2f}]" if gain.interval else ""
    return f"{gain.decades:+.2f}{interval}{BOUNDS[gain.before_open, gain.after_open]}"


def firm_text(cause):
    first = cause.gains[0]
    if first.interval is None:
        return "too few seeds"
    if not first.is_firm:
        return "no"
    return f"at {first.tau:g} alone" if other_levels(cause) else "**yes**"


def unsettled_section(causes):
    """The large changes that are not settled, with what would settle them; the small ones by
    name.
    """
    unsettled = [cause for cause in causes if not cause.gains[0].is_firm]
    large = [cause for cause in unsettled if abs(cause.gains[0].decades) >= LARGE]
    small = [cause_title(cause) for cause in unsettled if cause not in large]
    text = ""
    if large:
        text += f"Not settled, of {LARGE:g} decades or more:\n\n"
        text += "".join(f"- {unsettled_text(cause)}\n" for cause in large)
    if small:
        text += "\n" * bool(large) + f"Not settled, and smaller: {and_text(small)}.\n"
    return text


def effect_text(cause):
    gain = cause.gains[0]
    verb = "gains" if gain.decades > 0 else "loses"
    size = f"{abs(gain.decades):.1f} decades of W({gain.tau:g})"
    return f"{cause_title(cause)}: {verb} {size} (from `{cause.recipe}`)"


def unsettled_text(cause):
    """What it did, why that is not certain, and what to train."""
    return f"{effect_text(cause)}. {_capital(doubt_text(cause))}. {remedy_text(cause)}"


def doubt_text(cause):
    gain = cause.gains[0]
    seeds = f"{seeds_text(cause.before)} a rate before the change, {seeds_text(cause.after)} after"
    if gain.interval is None:
        return f"{seeds}, too few to say"
    if gain.interval[0] <= 0 <= gain.interval[1]:
        return f"{seeds}; others may turn its sign"
    return "a wider grid may turn its sign"


def seeds_text(cell):
    few, many = seeds_of(cell)
    return count_text(many, "seed") if few == many else f"{few} to {count_text(many, 'seed')}"


def cause_title(cause):
    """Mamba without convolution, (64, 4), 2 layers"""
    _, depth = shape_of(cause)
    return f"{changed_text(cause)}, {size_of(cause)}, {count_text(depth, 'layer')}"


def changed_text(cause):
    return join_name(mixer_title(cause.mixer), cause.text)


def size_of(cause):
    task = cause.before.rows[0].spec["task"]
    return f"({task.get('length', NONE)}, {task.get('pairs', NONE)})"


def shape_of(cause):
    model = cause.before.rows[0].spec["model"]
    return model["width"], model["depth"]


def id_of(cell):
    return cell_id(cell.rows[0].spec)


def _capital(text):
    return text[:1].upper() + text[1:]
