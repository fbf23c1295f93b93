"""Verdicts by rows of which one thing is changed, to try out what a verdict hangs on: lost seeds
that count like the others of their rate, and one setting of a recipe.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from cause_text import id_of

from recollect.analysis import TAU
from recollect.reports.paper.causes import ranked
from recollect.reports.paper.claims.groups import find_subjects, subject_text
from recollect.reports.paper.claims.judge import judge
from recollect.reports.paper.claims.thresholds import NEAR_FLOOR
from recollect.reports.paper.evidence import rows_by_recipe
from recollect.spec.cell import cell_id


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the verdicts rest on, and what else was found in the same rows."""

    rows: tuple
    curves: dict
    verdicts: dict  # by recipe
    causes: list


class Turned(NamedTuple):
    """The names of the cells whose verdict a trial turns."""

    holding: list  # they failed
    failing: list  # they held


# ---- lost seeds ----


class LostSeeds(NamedTuple):
    """Runs of one cell that learn nothing where most seeds solve the task, and the cell if they
    scored like those.
    """

    role: object
    subject: object
    runs: frozenset
    rows: list
    turned: Turned


def try_lost_seeds(verdict, evidence):
    """Cell by cell that the claim looks at and that has lost seeds."""
    rows = rows_of(verdict, evidence)
    found = []
    for role, subject in subjects_of(verdict, rows):
        lost = lost_runs(subject.cell)
        if lost:
            counted = [as_others(row, subject.cell, lost) for row in rows]
            turned = turned_by(verdict, counted, evidence)
            ids = {row.run_id for row in subject.cell.rows}
            own = [row for row in counted if row.run_id in ids]
            found.append(LostSeeds(role, subject, lost, own, turned))
    return found


def lost_runs(cell):
    """The ids of runs near the floor, at rates at which most seeds solve the task."""
    floor = cell.position_only + NEAR_FLOOR
    return frozenset(
        row.run_id
        for rate in cell.scored_rates
        if 2 * sum(score >= TAU for score in rate.scores.values()) > len(rate.scores)
        for row in rate.scored
        if row.status == "done" and row.score <= floor  # a diverged run had too large a rate
    )


def as_others(row, cell, lost):
    """The row; if it is lost, with the mean score of the runs at its rate that are not."""
    if row.run_id not in lost:
        return row
    [rate] = [rate for rate in cell.scored_rates if rate.lr == row.spec["train"]["lr"]]
    scores = [own.score for own in rate.scored if own.run_id not in lost]
    mean = math.fsum(scores) / len(scores)
    return replace(row, accuracy=mean, exact=mean)


# ---- one setting ----


class Setting(NamedTuple):
    """A change of one choice of the recipe, in every cell in which it was trained."""

    causes: list
    turned: Turned
    failing: list  # cells that fail with the change, too, though it is of a model that fails


def try_settings(verdict, evidence):
    """Change by change from the verdict's recipe, of cells that the claim looks at."""
    rows = rows_of(verdict, evidence)
    asked = {id_of(subject.cell) for _, subject in subjects_of(verdict, rows)}
    failing = {id_of(subject.cell) for _, subject in failing_subjects(verdict, evidence)}
    changes = {}
    for cause in ranked(evidence.causes):
        is_asked = cause.recipe == verdict.recipe and id_of(cause.before) in asked
        if is_asked and not cause.is_ablation:
            changes.setdefault((cause.key, cause.values), []).append(cause)
    found = []
    for causes in changes.values():
        changed = with_setting(rows, causes)
        still = []
        if failing & {id_of(cause.before) for cause in causes}:
            now = outcomes(verdict, changed, evidence)
            still = [cell.cell for cell in failing_of(verdict) if now.get(cell.cell) is False]
        found.append(Setting(causes, turned_by(verdict, changed, evidence), still))
    return found


def with_setting(rows, causes):
    """The rows, those of the changed cells in place of those that follow the recipe."""
    replaced = {id_of(cause.before) for cause in causes}
    kept = [row for row in rows if cell_id(row.spec) not in replaced]
    moved = [
        replace(row, spec=as_before(row.spec, cause.before.rows[0].spec))
        for cause in causes
        for row in cause.after.rows
    ]
    return kept + moved


def as_before(spec, before):
    """The specification of the cell before the change, with the rate and seed of `spec`."""
    train = before["train"] | {"lr": spec["train"]["lr"]}
    return before | {"seed": spec["seed"], "train": train}


# ---- judging again ----


def turned_by(verdict, rows, evidence):
    """What other rows make of the cells that the verdict decides."""
    now = outcomes(verdict, rows, evidence)
    return Turned(
        [cell.cell for cell in failing_of(verdict) if now.get(cell.cell) is True],
        [cell.cell for cell in holding_of(verdict) if now.get(cell.cell) is False],
    )


def outcomes(verdict, rows, evidence):
    """Whether each cell of the claim holds by these rows."""
    [found] = judge([verdict.claim], rows, evidence.curves, verdict.recipe, resamples=0)
    return {cell.cell: cell.check.holds for cell in found.cells}


# ---- cells of a verdict ----


def failing_of(verdict):
    return [cell for cell in verdict.cells if cell.check.holds is False]


def holding_of(verdict):
    return [cell for cell in verdict.cells if cell.check.holds]


def rows_of(verdict, evidence):
    """The rows of its recipe, apart from what the claim varies."""
    return _by_recipe(evidence, verdict.claim.varies).get(verdict.recipe, [])


@lru_cache
def _by_recipe(evidence, varied):
    return rows_by_recipe(evidence.rows, varied)


def subjects_of(verdict, rows):
    """The cells that the claim looks at, each with its role."""
    return [
        (role, subject)
        for subject in find_subjects(rows)
        if verdict.claim.fits(subject) and subject.cell.scored_rates
        for role in verdict.claim.roles
        if role.fits(subject.flat)
    ]


def failing_subjects(verdict, evidence):
    """Those of them that a failing comparison names."""
    return named_subjects(verdict, evidence, failing_texts(verdict))


def named_subjects(verdict, evidence, texts):
    """Those of them that one of the texts names."""
    return [
        (role, subject)
        for role, subject in subjects_of(verdict, rows_of(verdict, evidence))
        if any(subject_text(role, subject) in text for text in texts)
    ]


def failing_texts(verdict):
    """The single comparisons that fail, in words."""
    return leaf_texts(failing_of(verdict), False)


def leaf_texts(cells, holds):
    """The single comparisons that hold, or that fail, in words."""
    return [
        leaf.text
        for cell in cells
        for leaf in cell.check.leaves
        if leaf.holds is holds and leaf.text
    ]


def width_of(cell):
    """The width in the name of a cell, as at_panel writes it; None of a line of cells."""
    _, _, width = cell.cell.partition(" width ")
    return int(width) if width.isdigit() else None
