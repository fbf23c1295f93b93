"""What may explain that a claim did not reproduce, as far as the rows tell. Every sentence follows
from the rows.
"""

import math

from result_causes import TITLE
from result_trials import (
    failing_of,
    failing_subjects,
    failing_texts,
    holding_of,
    leaf_texts,
    named_subjects,
    rows_of,
    subjects_of,
    try_lost_seeds,
    try_settings,
    width_of,
)
from result_windows import outlook_of

from recollect.analysis import TAU, ZOOLOGY_RATES, group_cells, rate_text, score_text
from recollect.analysis.naming import differing_keys, short_labels
from recollect.analysis.seeds.prediction import find_lost
from recollect.analysis.settings import DEPTH, MIXER, WIDTH, cell_settings
from recollect.analysis.wording import and_text, spaced
from recollect.plotting.text import mixer_title
from recollect.reports.paper.causes import is_thin
from recollect.reports.paper.claims.groups import subject_text
from recollect.reports.paper.claims.rules.search import sparse_grid_misses
from recollect.reports.paper.claims.verdicts import percent_text
from recollect.reports.paper.figures.why import THIN
from recollect.reports.paper.searched import is_measured
from recollect.spec.recipes.label import EVALUATION_KEYS

NO_REASON = "No explanation in the rows so far."
CAUSES = f"#{TITLE.lower().replace(' ', '-')}"
LOST = "[learn nothing](decisions/search-edges.md#lost-seeds)"
LEAST_FIRM = 0.5  # a verdict that fewer draws of other seeds give is in doubt
MOST_NAMES = 4
COORDINATES = {  # of a cell that a claim judges
    "the length and pairs": lambda cell: cell.size,
    "the width": lambda cell: width_of(cell),
    "the model": lambda cell: cell.role and cell.role.name,
}


def explanation(verdict, evidence):
    """Sentences: what may explain the verdict, what does not turn it, and what is in doubt."""
    recipes, same = by_recipe(verdict, evidence)
    lost, lost_doubts = by_lost_seeds(verdict, evidence)
    settings, no_settings, setting_doubts = by_settings(verdict, evidence)
    found = [
        *by_tau(verdict),
        *by_cell(verdict),
        *recipes,
        *settings,
        *lost,
        *by_grid(verdict, evidence),
    ]
    doubts = [*setting_doubts, *lost_doubts, *thin_windows(verdict, evidence), *by_draws(verdict)]
    return [
        *([f"May explain it: {text}." for text in found] or [NO_REASON]),
        *(f"Does not turn it: {text}." for text in [*same, *no_settings]),
        *map(doubt_text, doubts),
        *shared_failures(verdict, evidence),
    ]


# ---- what differs between cells that hold and cells that fail ----


def by_tau(verdict):
    """The level that a score has to reach for its rate to belong to a window."""
    if not verdict.disagreement:
        return []
    words = {}
    for tau, found in verdict.by_tau:
        if found.outcome != "not enough data":
            verb = "is " if found.outcome in ("contradicted", "reproduced") else ""
            words.setdefault(verb + found.words, []).append(f"{tau:g}")
    told = [f"{own} at {and_text(taus)}" for own, taus in words.items()]
    return [f"the level τ; it {', and it '.join(told)}"]


def by_cell(verdict):
    """The one thing in which the failing cells differ from those that hold."""
    failing, holding = failing_of(verdict), holding_of(verdict)
    apart = apart_in(failing, holding)
    return [f"{apart}; it fails in {names(failing)} and holds in {names(holding)}"] if apart else []


def apart_in(failing, holding):
    """What has no value in common in cells that fail and cells that hold; empty if that is
    nothing, or several things.
    """
    if not failing or not holding:
        return ""
    apart = [
        name
        for name, of in COORDINATES.items()
        if not set(map(of, failing)) & set(map(of, holding))
    ]
    return apart[0] if len(apart) == 1 else ""


def by_recipe(verdict, evidence):
    """What other recipes say of the failing cells: where one holds, and where it fails, too. If
    none holds: in which cells the claim holds by them that this recipe does not decide.
    """
    turned, alike, elsewhere = {}, {}, []
    decided = {cell.cell for cell in verdict.cells if cell.check.holds is not None}
    failing = failing_of(verdict)
    for twin in twins(verdict, evidence):
        theirs = {cell.cell: cell.check.holds for cell in twin.cells}
        for cell in failing:
            if theirs.get(cell.cell) is not None:
                told = turned if theirs[cell.cell] else alike
                told.setdefault(cell.cell, []).append(twin.recipe)
        others = [cell for cell in holding_of(twin) if cell.cell not in decided]
        if apart := apart_in(failing, others):
            elsewhere.append(
                f"{apart}; under `{twin.recipe}` it holds in {names(others)}, which"
                f" `{verdict.recipe}` does not decide yet"
            )
    found = [
        f"the recipe; {name} holds under {quoted(recipes)}.{apart_text(verdict, recipes, evidence)}"
        for name, recipes in turned.items()
    ]
    same = [f"the recipe; {name} fails under {quoted(own)}, too" for name, own in alike.items()]
    return found or elsewhere, same


def apart_text(verdict, recipes, evidence):
    """In how many settings the models that fail differ from those of each recipe, and in which."""
    told = []
    for recipe in recipes:
        keys = set()
        for twin in twins(verdict, evidence):
            if twin.recipe == recipe:
                theirs = [one for _, one in subjects_of(twin, rows_of(twin, evidence))]
                for _, subject in failing_subjects(verdict, evidence):
                    keys |= settings_apart(subject, theirs)
        if keys:
            labels = sorted(map(spaced, short_labels(keys).values()))
            told.append(f"From `{recipe}` it differs in {and_text(labels)}")
    return " " + ". ".join(told) if told else ""


def settings_apart(subject, others):
    """The settings in which a cell differs from the one of another recipe at its place."""
    places = "task.length", "task.pairs", WIDTH, DEPTH, MIXER
    own = cell_settings(subject.cell.rows[0].spec)
    for other in others:
        theirs = cell_settings(other.cell.rows[0].spec)
        if all(own.get(key) == theirs.get(key) for key in places):
            return differing_keys([own, theirs]) - set(EVALUATION_KEYS)
    return set()


# ---- what a verdict hangs on ----


def by_settings(verdict, evidence):
    """One choice of the recipe: it turns a failing cell, it does not, or it turns one that
    holds.
    """
    holding, same, failing = {}, {}, {}  # the changes, by the cells
    for tried in try_settings(verdict, evidence):
        models = list(dict.fromkeys(mixer_title(cause.mixer) for cause in tried.causes))
        change = f"{tried.causes[0].text} ({and_text(models)})"
        if tried.turned.holding:
            holding.setdefault(and_text(tried.turned.holding), []).append(change)
        elif tried.failing:
            verb = "fails" if len(tried.failing) == 1 else "fail"
            same.setdefault(f"{and_text(tried.failing)} {verb}, too", []).append(change)
        if tried.turned.failing:
            failing.setdefault(and_text(tried.turned.failing), []).append(change)
    text = f"[a choice]({CAUSES}) of the recipe; with"
    return (
        [f"{text} {or_text(own)}, {cells} would hold" for cells, own in holding.items()],
        [f"{text} {or_text(own)}, {cells}" for cells, own in same.items()],
        [f"{text} {or_text(own)}, {cells} would fail" for cells, own in failing.items()],
    )


def by_lost_seeds(verdict, evidence):
    """Lost seeds that turn a failing cell, and those that turn one that holds."""
    found, doubts = [], []
    for tried in try_lost_seeds(verdict, evidence):
        if tried.turned.holding:
            found.append(f"{lost_text(tried)} {and_text(tried.turned.holding)} would hold")
        if tried.turned.failing:
            doubts.append(f"{lost_text(tried)} {and_text(tried.turned.failing)} would fail")
    return found, doubts


def lost_text(tried):
    """Lost seeds; at 5e-3 and 1e-2, 2 of 6 runs of ... If they scored like the others, ..."""
    cell = tried.subject.cell
    rates = [
        rate for rate in cell.scored_rates if any(row.run_id in tried.runs for row in rate.scored)
    ]
    runs = sum(len(rate.scored) for rate in rates)
    [counted] = group_cells(tried.rows)
    window = cell.window()
    before, after = (
        (f"{own.window().decades:.1f}" if window else score_text(own.best.mean))
        for own in (cell, counted)
    )
    what, unit = (f"W({TAU:g})", " decades") if window else ("its best score", "")
    too_large = not_lost(cell, tried.runs)
    others = f" {too_large} of them learn{'s' * (too_large == 1)} at no higher rate either, so that"
    others += " the rate may be too large for the seed."
    return (
        f"lost seeds; at {and_text([rate_text(rate.lr) for rate in rates])}, {len(tried.runs)} of"
        f" {runs} runs of {subject_text(tried.role, tried.subject)} {LOST} while most seeds of"
        f" their rate solve the task.{others if too_large else ''} If they scored like those,"
        f" {what} would be {after} instead of {before}{unit}, and"
    )


def not_lost(cell, runs):
    """How many of these runs a search does not count as lost: their seed learns at no higher rate,
    or no seed does at a lower one.
    """
    lost = find_lost(cell).seeds
    return sum(
        row.run_id in runs and row.spec["seed"] not in seeds
        for rate, seeds in zip(cell.rates, lost, strict=True)
        for row in rate.scored
    )


def by_grid(verdict, evidence):
    """Of the claim that a sparse grid misses windows: whether a window has room between rates."""
    if verdict.claim is not sparse_grid_misses:
        return []
    step = math.log10(ZOOLOGY_RATES[1] / ZOOLOGY_RATES[0])
    told = []
    for role, subject in failing_subjects(verdict, evidence):
        window = subject.cell.window()
        if window and is_measured(subject.cell):
            about = "~" if outlook_of(subject.cell) else ""
            name = f"{subject_text(role, subject)} has {about}{window.decades:.1f} decades"
            missed = max(0.0, 1 - window.decades / step)
            chance = f"a shifted grid would miss it with probability {percent_text(missed)}"
            told.append(f"{name}, {chance if missed else 'which no such grid can miss'}")
    if not told:
        return []
    return [
        f"the widths of the windows; the four rates are {step:.2f} decades apart. {'; '.join(told)}"
    ]


def thin_windows(verdict, evidence):
    """The windows that a search left with one seed at most rates: of failing cells; if none fails,
    of those that hold.
    """
    if not verdict.claim.has_window:
        return []
    texts = failing_texts(verdict) or leaf_texts(holding_of(verdict), True)
    thin = [
        subject_text(role, subject)
        for role, subject in named_subjects(verdict, evidence, texts)
        if is_thin(subject.cell)
    ]
    if not thin:
        return []
    which = f"the window{'s' * (len(thin) > 1)} of {and_text(thin)}"
    return [f"{which}; most rates inside have one seed ({THIN}), and lost seeds may go unseen"]


def by_draws(verdict):
    """Whether other seeds give the verdict too seldom, or another one often."""
    if verdict.firmness is None:
        return []
    told = []
    if verdict.firmness < LEAST_FIRM:
        told.append(f"{percent_text(verdict.firmness)} of the draws give this verdict")
    if verdict.rival:
        told.append(f"{percent_text(verdict.rival[1])} give: {verdict.rival[0]}")
    return [f"other seeds; {and_text(told)}"] if told else []


def shared_failures(verdict, evidence):
    """Other claims that fail by the same comparisons and no other: one deviation, not several."""
    own = failing_texts(verdict)
    others = [
        twin.claim.name
        for twin in evidence.verdicts[verdict.recipe]
        if twin is not verdict
        and (theirs := failing_texts(twin))
        and are_among(own, theirs)
        and are_among(theirs, own)
    ]
    verb = "fails" if len(others) == 1 else "fail"
    return [f"{and_text(others)} {verb} by the same comparison."] if others else []


def are_among(texts, others):
    """Whether each is part of another text, or has one as a part."""
    return all(any(one in other or other in one for other in others) for one in texts)


# ---- words ----


def or_text(texts):
    """a, b or c"""
    return " or ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def doubt_text(text):
    return f"In doubt: {text}."


def quoted(recipes):
    return and_text([f"`{recipe}`" for recipe in recipes])


def twins(verdict, evidence):
    """The verdicts on the same claim under other recipes."""
    return [
        twin
        for recipe, own in evidence.verdicts.items()
        for twin in own
        if recipe != verdict.recipe and twin.claim is verdict.claim
    ]


def names(cells):
    """Some of their names, and how many there are beyond these."""
    told = list(dict.fromkeys(cell.cell for cell in cells))
    more = [f"{len(told) - MOST_NAMES} more"] if len(told) > MOST_NAMES else []
    return and_text(told[:MOST_NAMES] + more)
