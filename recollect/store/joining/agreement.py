"""Whether two results of one run agree.

Equal content gives an equal id, so two folders may hold the same run. Its result is how it ended
and its curve; when, where and how fast it was trained is not part of it. On one kind of device and
version the numbers are equal to the last bit or within a tolerance (docs/decisions), so anything
but equal numbers is reported and left to a person.
"""

from collections.abc import Sequence
from dataclasses import replace

from recollect.rows import Evaluation, RunRow
from recollect.spec.cell import run_name

Curve = Sequence[Evaluation]


def has_same_result(one: RunRow, one_curve: Curve, two: RunRow, two_curve: Curve) -> bool:
    """Of two finished runs with one id."""
    ends = [(row.status, row.steps, row.stopped_early, row.diverged_step) for row in (one, two)]
    if ends[0] != ends[1] or len(one_curve) != len(two_curve):
        return False
    pairs = zip(one_curve, two_curve, strict=True)
    # By their shortest texts, in which NaN equals NaN.
    return all(repr(a) == repr(b) for a, b in (_comparable(*pair) for pair in pairs))


def conflict_text(row: RunRow, one: object, other: RunRow, two: object) -> str:
    """One line about two results that differ; `one` and `two` name their folders, and the first
    one's counts.
    """
    name = run_name(row.spec)
    return f"run {row.run_id} ({name}): {_end(row)} in {one}, which counts, {_end(other)} in {two}"


def _comparable(one: Evaluation, two: Evaluation) -> tuple[Evaluation, Evaluation]:
    """The score on training rows came later: it is compared where both have it."""
    if one.train_score is not None and two.train_score is not None:
        return one, two
    return replace(one, train_score=None), replace(two, train_score=None)


def _end(row: RunRow) -> str:
    score = "" if row.score is None else f" {row.score:.4f}"
    return f"{row.status}{score} after {row.steps} steps"
