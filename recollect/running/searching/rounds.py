"""What all searches in rounds share: a step between rates, and questions about a rate."""

from recollect.analysis import Rate
from recollect.rows import RunRow

# Decades, as between 1, 3, 10, 30, ...: the largest distance between tried rates at which what lies
# between them is trusted.
STEP = 0.55


def todo_rows(rate: Rate) -> list[RunRow]:
    return [row for row in rate.rows if row.status == "todo"]


def is_tried(rate: Rate) -> bool:
    """Whether a rate has a score, or will never get one because no run of it is todo."""
    return bool(rate.scores) or not todo_rows(rate)
