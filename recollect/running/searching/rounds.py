"""What the searches that go in rounds ask of a rate."""

from recollect.analysis import Rate
from recollect.rows import RunRow


def todo_rows(rate: Rate) -> list[RunRow]:
    return [row for row in rate.rows if row.status == "todo"]


def is_tried(rate: Rate) -> bool:
    """It has a score, or nothing at it will ever have one."""
    return bool(rate.scores) or not todo_rows(rate)
