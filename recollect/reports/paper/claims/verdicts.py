"""Verdicts as tables for a terminal, as lines for a pipe, and as records for JSON.

Verdicts are grouped by recipe: the headline recipe first, then the others.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from recollect.analysis import count_text
from recollect.reports.paper.claims.checks import join
from recollect.reports.paper.claims.claim import Verdict
from recollect.reports.paper.claims.coverage import Outcome
from recollect.reports.paper.claims.wanted import NextCell, next_cells

STYLES: dict[Outcome, str] = {
    "reproduced": "green",
    "holds in part": "yellow",
    "fails in part": "magenta",
    "contradicted": "red",
    "not enough data": "dim",
}
MOST_CELLS = 12  # the most cells that the "train next" table lists

ByRecipe = Mapping[str, Sequence[Verdict]]


def tables(found: ByRecipe, by_recipe: bool) -> list[Any]:
    """The output for a terminal: all recipes side by side, or the first one with its numbers.

    A table of the cells to train next for the first recipe follows.
    """
    first = next(iter(found.values()))
    cells = cells_to_train(first)
    shown: list[Any] = []
    if by_recipe:
        shown += [Text(summary(own)) for own in found.values()]
        decided = table_by_recipe(found)
        shown += [decided] if decided.rows else []
        shown.append(Text(f"not enough data: {', '.join(undecided(found)) or 'none'}"))
        shown.append(Text("numbers: recollect claims DIR --recipe NAME, or --json"))
    else:
        shown.append(table(first))
    return [*shown, table_of_cells(cells)] if cells else shown


def undecided(found: ByRecipe) -> list[str]:
    """The claims that no recipe decides."""
    beside = zip(*found.values(), strict=True)
    return [own[0].claim.name for own in beside if all(v.outcome == "not enough data" for v in own)]


def table_by_recipe(found: ByRecipe) -> Table:
    """One line per claim that a recipe decides, one column per recipe, readable at 100 columns."""
    left_out = set(undecided(found))
    shown = Table(box=None, padding=(0, 2, 0, 0))
    shown.add_column("", width=4)
    shown.add_column("claim", ratio=3, overflow="fold")
    for name in found:
        shown.add_column(without_controls(name), ratio=2, overflow="fold")
    for beside in zip(*found.values(), strict=True):
        claim = beside[0].claim
        if claim.name not in left_out:
            words = [Text(_short(verdict), STYLES[verdict.outcome]) for verdict in beside]
            shown.add_row(claim.name, without_controls(claim.shown_statement), *words)
    return shown


def table(verdicts: Sequence[Verdict]) -> Table:
    """One block per claim with its numbers, readable at 100 columns."""
    shown = Table(
        box=None,
        padding=(0, 2, 1, 0),
        show_header=False,
        title=summary(verdicts),
        title_justify="left",
    )
    shown.add_column(width=15)
    shown.add_column(ratio=1, overflow="fold")
    for verdict in verdicts:
        shown.add_row(
            Text.assemble(
                (verdict.claim.name, "bold"), "\n", (verdict.words, STYLES[verdict.outcome])
            ),
            Text.assemble(
                (without_controls(verdict.claim.statement), "bold"),
                *(f"\n{line}" for line in details(verdict)),
            ),
        )
    return shown


def table_of_cells(cells: Sequence[NextCell]) -> Table:
    """The cells to train next, the most claims decided for the fewest steps first."""
    shown = Table(box=None, padding=(0, 2, 0, 0))
    shown.add_column("train next", ratio=3, overflow="fold")
    shown.add_column("run-steps", justify="right", no_wrap=True)
    shown.add_column("for", ratio=2, overflow="fold")
    for cell in cells[:MOST_CELLS]:
        shown.add_row(without_controls(cell.want.text), cost_text(cell), ", ".join(cell.claims))
    return shown


def cells_to_train(verdicts: Sequence[Verdict]) -> list[NextCell]:
    """The cells that the open claims of one recipe ask for, in the order to train them."""
    if not verdicts:
        return []
    return next_cells({v.claim.name: v.wants for v in verdicts}, verdicts[0].recipe)


def commands(verdicts: Sequence[Verdict]) -> list[str]:
    """The commands that train the next cells, one per line, each with its cost and its claims."""
    return [
        f"{cell.want.command(cell.recipe)}  # {', '.join(cell.claims)}: {cost_text(cell)} run-steps"
        for cell in cells_to_train(verdicts)
    ]


def to_lines(verdicts: Sequence[Verdict]) -> str:
    """One unwrapped line per claim, since other programs read the pipe line by line."""
    told = []
    for verdict in verdicts:
        parts = [without_controls(verdict.claim.statement), *details(verdict)]
        parts += [f"run: {without_controls(command)}" for command in what_to_run(verdict)[:1]]
        told.append(f"{verdict.claim.name:<4} {verdict.words:<22} {' | '.join(parts)}")
    return "\n".join([summary(verdicts), *told]) + "\n"


def what_to_run(verdict: Verdict) -> list[str]:
    """The commands for its missing cells, the cheapest first."""
    return [
        f"{cell.want.command(cell.recipe)}  # {cost_text(cell)} run-steps"
        for cell in cells_to_train([verdict])
    ]


def records(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """One object per claim, including its cells and their single comparisons."""
    return [
        {
            "claim": verdict.claim.name,
            "recipe": verdict.recipe,
            "statement": verdict.claim.statement,
            "origin": verdict.claim.origin,
            "setting": verdict.claim.setting,
            "rule": verdict.claim.rule_text,
            "coverage": verdict.claim.coverage.words,
            "thresholds": {
                threshold.name: float(threshold) for threshold in verdict.claim.thresholds
            },
            "verdict": verdict.outcome,
            "words": verdict.words,
            "cells": {
                "named": verdict.tally.cells,
                "hold": verdict.tally.holding,
                "fail": verdict.tally.failing,
            },
            "firmness": verdict.firmness,
            "resampled": dict(verdict.resampled),
            "by_tau": {f"{tau:g}": found.words for tau, found in verdict.by_tau},
            "numbers": verdict.numbers,
            "reduced": verdict.reduced,
            "run_steps": verdict.run_steps,
            "what_to_run": what_to_run(verdict),
            "figure": verdict.figure,
            "remark": verdict.remark,
            "comparisons": [
                {
                    "cell": cell.cell,
                    "holds": cell.check.holds,
                    "numbers": cell.check.text,
                    "lacks": cell.check.lacks,
                }
                for cell in verdict.cells
            ],
        }
        for verdict in verdicts
    ]


def to_json(found: ByRecipe) -> str:
    return json.dumps([entry for own in found.values() for entry in records(own)], indent=1) + "\n"


def summary(verdicts: Sequence[Verdict]) -> str:
    """The recipe, the number of claims, and how many claims have each verdict that occurs."""
    counted = Counter(verdict.outcome for verdict in verdicts)
    name = f"{without_controls(verdicts[0].recipe)}: " if verdicts else ""
    return f"{name}{count_text(len(verdicts), 'claim')}: " + ", ".join(
        f"{counted[outcome]} {outcome}" for outcome in STYLES if counted[outcome]
    )


def details(verdict: Verdict) -> list[str]:
    """Lines about a verdict: its numbers, how firm they are, what limits them, and the figure."""
    told = [
        verdict.numbers,
        firm_text(verdict),
        f"to train: {missing_text(verdict)}" if verdict.wants else "",
        f"at reduced scale: {verdict.reduced}" if verdict.reduced else "",
        "not in the study's words: ours" if verdict.claim.origin == "ours" else "",
        verdict.claim.contradiction,
        f"figure: {verdict.figure}",
    ]
    return [without_controls(line) for line in told if line]


def firm_text(verdict: Verdict) -> str:
    """The share of resamples with the same verdict, and whether the verdict depends on tau."""
    share = (
        f"the same verdict in {percent_text(verdict.firmness)} of resampled seeds"
        f"{_rival_text(verdict)}"
        if verdict.firmness is not None
        else ""
    )
    others = verdict.other_taus
    agree = f"no cell turns with tau, {others}" if others else "the same at every tau"
    by_tau = verdict.disagreement or agree if verdict.by_tau else ""
    return "; ".join(filter(None, [share, by_tau]))


def firm_words(verdict: Verdict) -> str:
    """The text of `firm_text` in a few words, for use under a heading."""
    share = "" if verdict.firmness is None else shares_text(verdict)
    by_tau = verdict.disagreement or verdict.other_taus or "at every tau" if verdict.by_tau else ""
    return ", ".join(filter(None, [share, by_tau]))


def missing_text(verdict: Verdict) -> str:
    """The cells that still have to be trained, and their cost."""
    cells = count_text(len(verdict.wants), "cell")
    named = join(cell.want.text for cell in cells_to_train([verdict]))
    most = "at most " if any(want.is_searched for want in verdict.wants) else ""
    return f"{named} ({cells}, {most}{steps_text(verdict.run_steps)} run-steps)"


def cost_text(cell: NextCell) -> str:
    """The cost of a cell in run-steps. It is an upper limit if the cell is searched."""
    return f"{'at most ' if cell.want.is_searched else ''}{steps_text(cell.run_steps)}"


def steps_text(steps: int) -> str:
    """Format a number of steps: 380,250 as 380 k, 1,140,750 as 1.14 M."""
    if steps >= 1_000_000:
        return f"{steps / 1e6:.3g} M"
    return f"{steps / 1e3:.3g} k" if steps >= 1000 else str(steps)


def without_controls(text: str) -> str:
    """Replace unprintable characters, which could move a cursor: a plugin may supply settings."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _short(verdict: Verdict) -> str:
    firm = "" if verdict.firmness is None else f" ({shares_text(verdict)})"
    tau = ", depends on tau" if verdict.disagreement else ""
    return f"{verdict.words}{firm}{tau}"


def shares_text(verdict: Verdict) -> str:
    """The share of resampled seeds with the same verdict, and the most frequent other verdict:
    "51 %, contradicted in 49 %".
    """
    return f"{percent_text(verdict.firmness or 0.0)}{_rival_text(verdict)}"


def _rival_text(verdict: Verdict) -> str:
    return f", {verdict.rival[0]} in {percent_text(verdict.rival[1])}" if verdict.rival else ""


def percent_text(share: float) -> str:
    """Format a share. Neither 0 % nor 100 % is shown, since a sample cannot show certainty."""
    if share > 0.99:
        return ">99 %"
    return "<1 %" if share < 0.01 else f"{100 * share:.0f} %"
