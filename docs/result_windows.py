"""What the results page says about windows: pictures, sentences and a table per recipe, and a
table of all that differs from one.
"""

import math

from page_parts import NONE, table

from recollect.analysis import TAU, count_text, ranking, rate_text, score_text, summarise
from recollect.analysis.seeds import TAUS, windows_by_threshold
from recollect.errors import SpecError
from recollect.plotting.text import mixer_title
from recollect.reports.paper.causes import is_thin
from recollect.reports.paper.evidence import BUT, rows_by_recipe
from recollect.reports.paper.figures.why import THIN
from recollect.reports.paper.searched import is_measured
from recollect.reports.pictures import PictureRequest, Source
from recollect.reports.pictures.shown import Shown
from recollect.running.searching.edges import TOLERANCE
from recollect.running.searching.outlook import window_outlook

HEAD = ("task", "width", "layers", "model", "best score", "at rate")
HEAD += (*(f"W({tau:g})" for tau in TAUS), "from – to", "G(4)", "steps to solve", "seeds")
NUMBERS = (1, 2, 4, 5, 6, 7, 8, 10, 11, 12)  # columns of HEAD that stand on the right
MAIN = tuple(map(mixer_title, ("attention", "mamba", "delta_net", "hyena")))


def windows_section(results, pictures, save):
    """Recipe by recipe, whole ones with pictures and sentences; then what differs from one."""
    text = "## Windows\n\n"
    text += "G(4) is grid luck: the probability that a grid of four rates over 8/3 decades, shifted"
    text += " at random, has a rate in the window W(0.9). Where a few rates were tried alone, to"
    text += " see whether a model solves the task, nothing is said about its window.\n"
    changed = []
    for number, (recipe, rows) in enumerate(rows_by_recipe(results.rows).items(), start=1):
        if not any(row.has_result for row in rows):
            continue
        source = Source(recipe, rows, results.curves)
        sentences, lines = compared(source)
        if BUT in recipe:
            changed += [(recipe, *line) for line in lines]
            continue
        text += f"\n### Recipe: {recipe}\n\n"
        if len({row.spec["model"]["mixer"]["name"] for row in rows if row.has_result}) > 1:
            for kind in ("windows", "rates", "curves"):
                text += drawn(kind, source, pictures / f"{kind}-{number}.png", save)
        text += "".join(f"- {sentence}\n" for sentence in sentences) + "\n" * bool(sentences)
        text += table(HEAD, lines, NUMBERS)
    if changed:
        text += "\n### One or more changes from a recipe\n\n"
        text += table(("recipe", *HEAD), changed, [number + 1 for number in NUMBERS])
    return text


def drawn(kind, source, file, save):
    try:
        save(file, PictureRequest(kind).draw(source))
    except SpecError as refusal:
        return f"{kind}: {' '.join(str(refusal).splitlines())}\n\n"
    return f"![{kind}]({file.parent.name}/{file.name})\n\n"


def compared(source):
    """Sentences that compare, and a line per cell, panel by panel, the widest window first."""
    sentences, lines = [], []
    for panel in Shown.of(source).panels(most=math.inf):  # a table has room for all
        summaries = summarise([cell.runs for cell in panel.cells], source.curves)
        pairs = list(zip(panel.cells, summaries, strict=True))
        found = ranking([(cell.label, summary) for cell, summary in pairs], is_measured)
        if found:
            title = f"{panel.title}: " if panel.title else ""
            sentences.append(f"{title}{' '.join(found)}")
        pairs.sort(key=lambda pair: -width_of(pair[1]))
        lines += [window_line(cell, summary) for cell, summary in pairs]
    return sentences, lines


def width_of(summary):
    return summary.window.decades if summary.window else -1.0 + summary.best.mean


def window_line(cell, summary):
    best, window = summary.best, summary.window
    scores = best.scores.values()
    spread = f" ({score_text(min(scores))} to {score_text(max(scores))})" if len(scores) > 1 else ""
    seeds = {len(rate.scores) for rate in cell.runs.scored_rates}
    if is_measured(cell.runs):
        found = windows_by_threshold(cell.runs, TAUS)
        widths = [width_text(cell.runs, one) for one in found]
        reach = f"{rate_text(window.low)} – {rate_text(window.high)}" if window else NONE
        known = *widths, reach, f"{summary.luck:.0%}"
    else:
        known = tried_text(cell.runs), *[NONE] * (len(TAUS) + 1)
    return (
        cell.place.task,
        cell.place.width,
        cell.place.depth,
        cell.label,
        score_text(best.mean) + (spread or "*"),
        rate_text(best.lr),
        *known,
        f"{summary.steps_to_solve:,.0f}" if summary.steps_to_solve is not None else "never",
        str(max(seeds)) if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}",
    )


def tried_text(runs):
    return f"{count_text(len(runs.scored_rates), 'rate')} tried"


def outlook_of(runs, tau=TAU):
    """What untrained runs of a cell may make of its window; None if that is little."""
    if not any(row.status == "todo" for row in runs.rows):
        return None
    outlook = window_outlook(runs, tau)
    return None if outlook.is_within(TOLERANCE) else outlook


def width_text(runs, found):
    """2.57 [2.30, 2.80], or ~2.57† {2.30, 2.80} if there are too few seeds for the first."""
    outlook = outlook_of(runs, found.tau)
    mark, reach = "~" if outlook else "", ""
    if found.interval:
        low, high = found.interval
        reach = f" [{low:.2f}, {high:.2f}]" if found.decades or high >= 0.005 else ""
    elif outlook:
        reach = f" {{{outlook.low:.2f}, {outlook.high:.2f}}}"
    if not found.decades:
        return f"{mark}none{reach}"
    thin = THIN * is_thin(runs, found.tau)
    return f"{'≥ ' if found.is_open else mark}{found.decades:.2f}{thin}{reach}"


# ---- in short ----


def windows_summary(recipe, rows, curves):
    """W(0.9) of the main models as one table, a line per depth, task and width."""
    lines = [
        (-depth, task, width, *(decades_text(own.get(mixer)) for mixer in MAIN))
        for (depth, task, width), own in sorted(main_cells(recipe, rows, curves), key=order)
    ]
    head = ("layers", "task", "width", *MAIN)
    return table(head, lines, numbers=(0, 2, 3, 4, 5, 6)) if lines else ""


def recipes_summary(rows_of, curves):
    """W(0.9) of the cells that were trained under several whole recipes, a column per recipe;
    `rows_of` has the rows by recipe.
    """
    recipes = [recipe for recipe in rows_of if BUT not in recipe]
    found = {}
    for recipe in recipes:
        for entry in sorted(main_cells(recipe, rows_of[recipe], curves), key=order):
            (depth, task, width), own = entry
            for mixer in MAIN:
                if mixer in own:
                    cell = found.setdefault((-depth, task, width, mixer), {})
                    cell[recipe] = decades_text(own[mixer])
    lines = [
        (*place, *(own.get(recipe, NONE) for recipe in recipes))
        for place, own in found.items()
        if len(own) > 1
    ]
    head = ("layers", "task", "width", "model", *(f"`{recipe}`" for recipe in recipes))
    return table(head, lines, numbers=(0, 2, *range(4, len(head)))) if lines else ""


def main_cells(recipe, rows, curves):
    """The main models by name, of each depth (negative), task and width."""
    found = {}
    for cell in Shown.of(Source(recipe, rows, curves)).cells:
        # Its plain form alone: an ablation says so in its name.
        if cell.label in MAIN and cell.runs.scored_rates:
            place = -int(cell.place.depth), cell.place.task, int(cell.place.width)
            found.setdefault(place, {})[cell.label] = cell.runs
    return found.items()


def order(entry):
    """Two layers before one, short rows before long ones."""
    (depth, _, width), own = entry
    task = next(iter(own.values())).rows[0].spec["task"]
    return depth, task.get("length", 0), task.get("pairs", 0), width


def decades_text(runs):
    """2.6; ≥ 2.6; ~2.6; none, best 0.87; 2 rates tried; – of what was not run."""
    if runs is None:
        return NONE
    window = runs.window()
    if not is_measured(runs):
        return f"{tried_text(runs)}, best {score_text(runs.best.mean)}"
    if window is None:
        return f"none, best {score_text(runs.best.mean)}"
    mark = "≥ " if window.is_open else "~" if outlook_of(runs) else ""
    return f"{mark}{window.decades:.1f}{THIN * is_thin(runs)}"
