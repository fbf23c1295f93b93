"""Comparison of two results of the same run.

Equal content gives an equal id, so two folders may hold the same run. Its result consists of the
way it ended and its curve, but not of when, where and how fast it was trained. On one kind of
device and version the numbers are equal to the last bit or within a tolerance (docs/decisions), so
any difference is reported and left to the user.
"""

from collections.abc import Sequence
from dataclasses import replace

from recollect.rows import Evaluation, RunRow
from recollect.spec.cell import run_name

Curve = Sequence[Evaluation]


def has_same_result(one: RunRow, one_curve: Curve, two: RunRow, two_curve: Curve) -> bool:
    """Whether two finished runs with the same id have the same result."""
    ends = [(row.status, row.steps, row.stopped_early, row.diverged_step) for row in (one, two)]
    if ends[0] != ends[1] or len(one_curve) != len(two_curve):
        return False
    pairs = zip(one_curve, two_curve, strict=True)
    # Compared by repr, in which NaN equals NaN.
    return all(repr(a) == repr(b) for a, b in (_comparable(*pair) for pair in pairs))


def conflict_text(row: RunRow, one: object, other: RunRow, two: object) -> str:
    """One line about two results that differ.

    `one` and `two` name their folders; the result in the first folder counts.
    """
    name = run_name(row.spec)
    return f"run {row.run_id} ({name}): {_end(row)} in {one}, which counts, {_end(other)} in {two}"


def _comparable(one: Evaluation, two: Evaluation) -> tuple[Evaluation, Evaluation]:
    """Both evaluations, without their training scores unless both have one.

    Results of older versions have no training score.
    """
    if one.train_score is not None and two.train_score is not None:
        return one, two
    return replace(one, train_score=None), replace(two, train_score=None)


def _end(row: RunRow) -> str:
    score = "" if row.score is None else f" {row.score:.4f}"
    return f"{row.status}{score} after {row.steps} steps"
