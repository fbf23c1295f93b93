"""The score of a model that does not bind keys to values: it knows only which values are in the
row and at which position the query is.
"""

from recollect.reports.paper.claims.groups import Subject
from recollect.reports.paper.claims.thresholds import ONE_PAIR_MOST, TWO_PERCENT


def floor(subject: Subject) -> float:
    """The best accuracy from position alone on this task; chance if the task is not mqar."""
    return subject.cell.position_only


def floor_text(subject: Subject) -> str:
    """Chance and the accuracy from position alone, in words."""
    return f"chance {subject.cell.chance:.3f}, position alone {floor(subject):.3f}"


def one_pair_most(subject: Subject) -> float:
    """The highest score that counts as "about one pair"."""
    return ONE_PAIR_MOST * floor(subject)


def failure(subject: Subject) -> float:
    """The highest score allowed for a row that the ablation tables print with 2 %."""
    return max(TWO_PERCENT, one_pair_most(subject))
