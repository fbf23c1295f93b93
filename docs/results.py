"""Writes docs/results.md, and its pictures into docs/results/, from the stored rows of the study's
size: python docs/results.py [ROOT].

Every number and every sentence with a number comes from the rows; nothing is typed by hand. Run
docs/gallery.py first: the study's own figures are shown from there.
"""

import sys
from pathlib import Path

from commits import BY_TIME, NAME, commits_by_store
from gallery import comparing, picture_name
from page_parts import HERE, NONE, shown, table, wrapped, write_png
from result_causes import all_causes, causes_section, largest_changes
from result_claims import (
    claims_section,
    claims_text,
    contradicted_text,
    statements,
    told,
    unlike_section,
)
from result_trials import Evidence
from result_windows import recipes_summary, windows_section, windows_summary

from recollect.analysis import count_text, group_cells
from recollect.analysis.wording import and_text
from recollect.plotting.coordinates import find_coordinates
from recollect.plotting.text import mixer_title
from recollect.reports.paper.claims.asking import judge_results
from recollect.reports.paper.claims.coverage import MIXED
from recollect.reports.paper.evidence import (
    join_stores,
    load_stores,
    minutes_of,
    rows_by_recipe,
)
from recollect.reports.paper.figures import FIGURES, TABLES
from recollect.reports.paper.figures.all_figures import DEFINITIONS
from recollect.reports.paper.figures.why import THIN
from recollect.running.searching.edges import TOLERANCE

HEAD = f"""# Results at the study's size

What the stored rows of the study's own size say: its vocabulary, its lengths, its number of rows
and epochs. Written by `make gallery` from `results/`; nothing here was typed by hand. The recipe
(the choices that the study leaves open) is part of every result: a whole recipe has its name, a run
that differs from one says in what.

W(τ) is a window: the decades of the widest contiguous range of learning rates where the mean score
over seeds is at least τ, and somewhere the best to 0.01; ≥ where the grid ended first. In square
brackets: where it should lie with other seeds (95 %, as long as no more of them are lost than
were; [how often that holds](decisions/intervals-over-seeds.md)). ~ marks a window that untrained
runs of its grid may move by more than {TOLERANCE:g} decades; in braces where to, if there are too
few seeds for square brackets. * marks the best score of a single seed.

{THIN} marks a window inside which most rates have one seed, as a search for its edges leaves them.
Where single seeds fail, [they go unseen](decisions/search-edges.md#lost-seeds), and such a window
may be narrower than it looks.
"""


def page(stores, pictures, save=write_png):
    """The whole page; `save` gets every picture's path and figure."""
    full = [store for store in stores if not store.is_reduced]
    results = join_stores(full)
    verdicts = judge_results(results, [store.folder for store in full])
    causes = all_causes(results.rows)
    evidence = Evidence(results.rows, results.curves, verdicts, causes)
    parts = [
        HEAD,
        summary_section(full, results, verdicts, causes),
        claims_section(verdicts),
        unlike_section(verdicts, evidence),
        windows_section(results, pictures, save),
        causes_section(results, causes, pictures, save),
        figures_section(results, verdicts),
        cost_section(full),
    ]
    return wrapped("\n".join(part for part in parts if part))


# ---- in short ----


def summary_section(stores, results, verdicts, causes):
    """What a reader takes away, of the first recipe with results: the study's own where it has."""
    # With the runs that are not trained yet, which may still move a window.
    rows = {
        recipe: own
        for recipe, own in rows_by_recipe(results.rows).items()
        if any(row.has_result for row in own)
    }
    recipe = next((name for name in verdicts if name in rows), next(iter(verdicts)))
    own = verdicts[recipe]
    lines = [
        f"Under the recipe `{recipe}`, {claims_text(own)}.",
        *contradictions(own),
        *largest_changes(causes),
        cost_text(stores),
    ]
    text = "## In short\n\n" + "".join(f"- {line}\n" for line in lines)
    windows = windows_summary(recipe, rows[recipe], results.curves) if recipe in rows else ""
    if windows:
        text += f"\nDecades of learning rate that work, W(0.9), under `{recipe}`; none: no rate"
        text += f" reaches 0.9; {NONE}: not run.\n\n{windows}"
    recipes = recipes_summary(rows, results.curves)
    if recipes:
        text += f"\nThe same under each recipe, where more than one was tried.\n\n{recipes}"
    return text


def contradictions(own):
    """The claims that the rows contradict, and those that fail in a cell."""
    against = [one for one in told(own) if one.outcome == "contradicted"]
    partly = [one for one in told(own) if one.kind == MIXED]
    lines = [f"Contradicted: {contradicted_text(one)}." for one in against]
    if partly:
        names = and_text([one.claim.name for one in partly])
        verbs = "holds in some cells and fails", "hold in some cells and fail"
        lines.append(f"{names} {verbs[len(partly) > 1]} in others.")
    return lines


def cost_text(stores):
    rows = join_stores(stores).rows
    ended = [row for row in rows if row.has_result]
    devices = sorted({row.device for row in ended if row.device})
    where = f" ({and_text(devices)})" if devices else ""
    runs = count_text(len(ended), "run")
    return f"Behind it: {runs}, {minutes_of(rows):,.0f} minutes of device time{where}."


# ---- what was trained ----


def cost_section(stores):
    """One line per store: what it holds, where and how it was trained, and for how long."""
    head = ("store", "runs", "models", "tasks", "recipe", "precision")
    head += ("commits", "device", "minutes")
    lines = [cost_line(store) for store in stores]
    rows = join_stores(stores).rows
    runs = sum(row.has_result for row in rows)
    lines.append(("all", of(runs, len(rows)), *[""] * 6, f"{minutes_of(rows):,.0f}"))
    versions = sorted(
        {
            ", ".join(f"{name} {row.versions[name]}" for name in sorted({*row.versions} - {"code"}))
            for store in stores
            for row in store.ended
        }
    )
    return (
        "## What was trained\n\n"
        + table(head, lines, numbers=(1, 8))
        + "\nMinutes are those of the device: a run counts with its share of the time of all"
        " that trained beside it. A run in two stores counts once in all."
        + repeats_text(stores)
        + commits_text(stores)
        + " Versions: "
        + "; ".join(versions)
        + ".\n"
    )


def repeats_text(stores):
    """How far apart the scores of runs are that were trained more than once."""
    scores = {}
    for store in stores:
        for row in store.ended:
            scores.setdefault(row.run_id, set()).add(row.score)
    apart = [max(own) - min(own) for own in scores.values() if len(own) > 1]
    if not apart:
        return ""
    verb = "was" if len(apart) == 1 else "were"
    return (
        f" {count_text(len(apart), 'run')} {verb} trained twice with other scores, at most"
        f" {max(apart):.4f} apart; those of the first store count."
    )


def commits_text(stores):
    """Where the commits come from."""
    own = [line for store in stores for line in commits_by_store().get(store.folder, ())]
    if not own:
        return ""
    text = f" Commits: the first and the last, and how many; `results/{NAME}` has all."
    if any(line.known_by == BY_TIME for line in own):
        text += " Rows that do not name their code have the newest commit before they began."
    return text


def commits_of(store):
    """The first and the last commit a store was trained with, and how many there are."""
    own = list(dict.fromkeys(line.commit for line in commits_by_store().get(store.folder, ())))
    if len(own) < 2:
        return "".join(own) or NONE
    return f"{own[0]} to {own[-1]} ({len(own)})"


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
        commits_of(store),
        ", ".join(sorted({row.device for row in rows if row.device})) or NONE,
        f"{store.minutes:,.1f}",
    )


def of(done, planned):
    return f"{done:,}" if done == planned else f"{done:,} of {planned:,}"


# ---- the study's figures ----


def figures_section(results, verdicts):
    """The pictures of the gallery that rows of this size can fill, by recipe; of the others what
    trains them.
    """
    text = "## The study's figures and tables\n\n"
    text += "Beside what the study says of each; [the gallery](gallery.md) has the commands.\n"
    for name in [*FIGURES, *TABLES]:
        found = comparing(name, results.rows)
        text += f"\n### {DEFINITIONS[name].title}\n\n{statements(name, verdicts)}"
        if not found:
            text += f"\nNo rows of this size yet: `recollect run paper:{name} --out ...`\n"
        for place, (recipe, rows) in enumerate(found.items()):
            text += f"\nRecipe `{recipe}`:\n\n"
            if name in TABLES:
                text += TABLES[name](rows, results.curves, "min-max").markdown()
            else:
                text += f"![{name}](gallery/{picture_name(name, place)})\n"
    return text


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "results"
    for old in (HERE / "results").glob("*.png"):
        old.unlink()
    (HERE / "results.md").write_text(page(load_stores(root), HERE / "results"))
