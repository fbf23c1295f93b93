"""The score of a model that binds nothing: it knows which values stand in the row and at which
position it is asked.
"""

from recollect.reports.paper.claims.groups import Subject
from recollect.reports.paper.claims.thresholds import ONE_PAIR_MOST, TWO_PERCENT


def floor(subject: Subject) -> float:
    """The best accuracy from position alone on this task; chance where it is not mqar."""
    return subject.cell.position_only


def floor_text(subject: Subject) -> str:
    """Chance, and beside it what position alone gives."""
    return f"chance {subject.cell.chance:.3f}, position alone {floor(subject):.3f}"


def one_pair_most(subject: Subject) -> float:
    """The most that "about one pair" may be."""
    return ONE_PAIR_MOST * floor(subject)


def failure(subject: Subject) -> float:
    """The most a row of the ablation tables may score that is printed with 2 %."""
    return max(TWO_PERCENT, one_pair_most(subject))
