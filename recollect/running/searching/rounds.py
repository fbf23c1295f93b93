"""Questions about a rate that all searches in rounds share."""

from recollect.analysis import Rate
from recollect.rows import RunRow


def todo_rows(rate: Rate) -> list[RunRow]:
    return [row for row in rate.rows if row.status == "todo"]


def is_tried(rate: Rate) -> bool:
    """Whether a rate has a score, or will never get one because no run of it is todo."""
    return bool(rate.scores) or not todo_rows(rate)
