"""What the results page says about causes: the changes of a recipe, ranked by what they did to a
window; which of them are not settled, and which runs would settle them; and the ablations apart.
"""

import contextlib
import json
from collections import Counter

from cause_text import (
    BOUNDS,
    change_text,
    changed_text,
    doubt_text,
    effect_text,
    firm_text,
    gain_text,
    id_of,
    other_levels,
    place_of,
    shape_of,
    size_of,
    unsettled_text,
    width_text,
)
from page_parts import NONE, shown, table
from result_remedies import STORE

from recollect.analysis import count_text
from recollect.analysis.seeds import TAUS
from recollect.analysis.wording import and_text
from recollect.errors import SpecError
from recollect.plotting.text import mixer_title
from recollect.reports.paper.causes import find_causes, ranked
from recollect.reports.paper.claims.thresholds import SAME_WINDOW
from recollect.reports.paper.evidence import BUT, rows_by_recipe
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
    own = [cause for cause in ranked(causes) if not cause.is_ablation]
    return [cause for cause in own if not is_implied(cause, own)]


def is_implied(cause, causes):
    """Whether both of its sides are changes of the same setting of one other cell, as warmup 0 and
    0.3 are where a recipe has 0.1: those two say what it says.
    """
    sides = {id_of(cause.before), id_of(cause.after)}
    ends = {}
    for other in causes:
        if other.key == cause.key:
            ends.setdefault(id_of(other.before), set()).add(id_of(other.after))
    return any(sides <= own for base, own in ends.items() if base not in sides)


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
    lines += ranges(own)
    done, planned = tried_of_preset(causes)
    if done < planned:
        lines.append(
            f"{done} of the {planned} changes that `{PREFIX}{WHY}` tries have a known window on"
            " both sides; the rest is open. To go on:"
            f" `recollect run {PREFIX}{WHY} --out {shown(STORE)}`."
        )
    return lines


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


def ranges(causes):
    """By model and size between which gains the changes of a whole recipe lie, if several do."""
    groups = {}
    for cause in causes:
        if BUT not in cause.recipe:
            key = cause.recipe, mixer_title(cause.mixer), size_of(cause), *shape_of(cause)
            groups.setdefault(key, []).append(cause.gains[0])
    lines = []
    for (recipe, model, size, _, depth), gains in groups.items():
        if len(gains) > 1:
            found = sorted(gain.decades for gain in gains)
            firm = sum(gain.is_firm for gain in gains)
            verb = "is" if firm < 2 else "are"
            lines.append(
                f"{model}, {size}, {count_text(depth, 'layer')}: {len(gains)} changes from"
                f" `{recipe}` move W({gains[0].tau:g}) by {signed(found[0])} to {signed(found[-1])}"
                f" decades; {firm or 'none'} of them {verb} beyond seeds."
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
        text += glance(own)
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


def glance(causes):
    """One line per change from the recipe most changed, one column per model and size."""
    whole = [cause for cause in causes if BUT not in cause.recipe]
    count = Counter((cause.recipe, shape_of(cause)) for cause in whole)
    if not count:
        return ""
    [((recipe, shape), _)] = count.most_common(1)
    own = [cause for cause in whole if (cause.recipe, shape_of(cause)) == (recipe, shape)]
    columns = list(dict.fromkeys(map(column_of, sorted(own, key=column_order))))
    first = own[0].gains[0].tau
    before = {column_of(cause): cause for cause in own}
    lines = [(f"W({first:g}) under `{recipe}`", *(base_text(before[column]) for column in columns))]
    for change in dict.fromkeys(cause.text for cause in own):  # the largest first
        gains = {column_of(cause): cause.gains[0] for cause in own if cause.text == change}
        lines.append((change, *(short_text(gains.get(column)) for column in columns)))
    width, depth = shape
    head = ("change", *columns)
    return (
        f"\nDecades of W({first:g}) gained or lost by one change from `{recipe}`, width {width},"
        f" {count_text(depth, 'layer')}; **bold**: beyond seeds; {NONE}: not known yet.\n\n"
        + table(head, lines, range(1, len(head)))
    )


def column_of(cause):
    return f"{mixer_title(cause.mixer)} {size_of(cause)}"


def column_order(cause):
    return cause.mixer, place_of(cause)


def base_text(cause):
    first = cause.gains[0]
    return width_text(cause.before, first.before, first.before_open)


def short_text(gain):
    """**-1.6**; +0.4 (≥)"""
    if gain is None:
        return NONE
    text = f"{signed(gain.decades)}{BOUNDS[gain.before_open, gain.after_open]}"
    return f"**{text}**" if gain.is_firm else text


def signed(decades):
    """+0.3; 0.0 without a sign"""
    return f"{round(decades, 1):+.1f}" if round(decades, 1) else "0.0"


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


def unsettled_section(causes):
    """The large changes that are not settled, with what would settle them; how many others."""
    unsettled = [cause for cause in causes if not cause.gains[0].is_firm]
    large = [cause for cause in unsettled if abs(cause.gains[0].decades) >= LARGE]
    small = len(unsettled) - len(large)
    text = ""
    if large:
        text += f"Not settled, of {LARGE:g} decades or more:\n\n"
        text += "".join(f"- {unsettled_text(cause)}\n" for cause in large)
    if small:
        text += "\n" * bool(large) + f"{count_text(small, 'smaller change')} "
        text += f"{'is' if small == 1 else 'are'} not settled{' either' * bool(large)}.\n"
    return text
