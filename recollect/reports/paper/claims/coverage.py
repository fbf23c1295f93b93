"""From single cells to a verdict: which cells a claim is about, and how many of them must agree.

For some figures the study names the cells (all widths, all sizes). For others it does not: then
every cell that was searched counts, several sizes must agree to settle a claim, and one easy cell
is not enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from recollect.reports.paper.claims.checks import Check, every, some
from recollect.reports.paper.claims.groups import Panel, size_text
from recollect.reports.paper.claims.roles import Role
from recollect.reports.paper.claims.thresholds import LEAST_LENGTH, LEAST_SIZES
from recollect.reports.paper.study import Size

Outcome = Literal["reproduced", "holds in part", "fails in part", "contradicted", "not enough data"]
# What "holds in part" is called if cells fail; without, all that are decided hold.
MIXED = "holds in some cells and fails in others"
# The verdicts that further cells may change.
OPEN_OUTCOMES: tuple[Outcome, ...] = ("holds in part", "fails in part", "not enough data")


@dataclass(frozen=True)
class CellCheck:
    """The result of a rule for one cell, or for one line of cells."""

    cell: str
    check: Check
    size: Size = (0, 0)
    role: Role | None = None
    is_counted: bool = True  # False: a condition on all cells together


def at_panel(panel: Panel, check: Check, role: Role | None = None) -> CellCheck:
    """The check of a cell, named by its size and width, and by its model if a role is given."""
    name = f"{role.name} " if role else ""
    return CellCheck(f"{name}{size_text(panel.size)} width {panel.width}", check, panel.size, role)


@dataclass(frozen=True)
class Coverage:
    """Which cells decide: `named` if the study names them, `one` if one that holds is enough."""

    named: bool
    one: bool
    words: str


EVERY = Coverage(True, False, "every named cell must hold, and one that fails contradicts it")
UNNAMED = Coverage(
    False,
    False,
    "the study does not name its cells. All that were searched must hold, at "
    f"{LEAST_SIZES:g} sizes or more, one of at least {LEAST_LENGTH:g} tokens. A model that fails "
    "in all of them, at as many sizes, contradicts it",
)
SOME_UNNAMED = Coverage(
    False,
    True,
    "the study does not name its cells. One that holds is enough. To contradict it, each model "
    f"must fail in all cells that were searched, at {LEAST_SIZES:g} sizes or more, one of at least "
    f"{LEAST_LENGTH:g} tokens",
)


@dataclass(frozen=True)
class Tally:
    """A verdict and the numbers of cells behind it."""

    outcome: Outcome
    holding: int
    failing: int
    cells: int  # the number of named cells; if the claim names none, of decided cells
    fails_together: bool = False  # a condition on all cells together fails

    @property
    def fails(self) -> bool:
        """Whether anything is against the claim."""
        return self.failing > 0 or self.fails_together

    @property
    def kind(self) -> str:
        """The outcome; MIXED instead of "holds in part" if anything is against the claim."""
        return MIXED if self.outcome == "holds in part" and self.fails else self.outcome

    @property
    def words(self) -> str:
        """As a table prints it: "holds in 2 of 4 cells", "fails in 1 of 1 cell"."""
        if self.outcome == "holds in part":
            return f"holds in {self.holding} of {count_cells(self.cells)}"
        if self.outcome == "fails in part":
            return f"fails in {self.failing} of {count_cells(self.cells)}"
        return self.outcome

    @property
    def counted(self) -> str:
        """How many cells hold and fail, in words; empty if none is decided."""
        if not self.holding + self.failing:
            return ""
        parts = [
            f"{self.holding} hold" if self.holding != 1 else "1 holds",
            f"{self.failing} fail" if self.failing != 1 else "1 fails",
        ]
        return f"of {count_cells(self.cells)} {' and '.join(parts)}"


def count_cells(count: int) -> str:
    return f"{count} cell" if count == 1 else f"{count} cells"


def tally(coverage: Coverage, cells: Sequence[CellCheck], roles: Sequence[Role] = ()) -> Tally:
    """Count the cells and derive the verdict.

    `roles` are the models of a claim without named cells. Such a claim is reproduced if all of
    them agree with it, and contradicted if one of them always fails.
    """
    holding = [cell for cell in cells if cell.check.holds]
    failing = [cell for cell in cells if cell.check.holds is False]
    decided = [*holding, *failing]
    if coverage.named:
        complete = len(decided) == len(cells)
    elif coverage.one:  # that something can happen is refuted only where each model was searched
        complete = all(_spans(own) for own in _by_model(decided, roles))
    else:
        complete = _spans(decided, roles)
    outcome: Outcome = "not enough data"
    if coverage.one:
        if holding:
            outcome = "reproduced"
        elif failing:
            outcome = "contradicted" if complete else "fails in part"
    elif failing and (coverage.named or _contradicts(decided, roles)):
        outcome = "contradicted"
    elif holding:
        outcome = "reproduced" if complete and not failing else "holds in part"
    elif failing:
        outcome = "fails in part"
    counted = [cell for cell in (cells if coverage.named else decided) if cell.is_counted]
    return Tally(
        outcome,
        sum(cell.is_counted for cell in holding),
        sum(cell.is_counted for cell in failing),
        len(counted),
        any(not cell.is_counted for cell in failing),
    )


def together(coverage: Coverage, cells: Sequence[CellCheck]) -> Check:
    """All cells combined into one check, for rows of a smaller scale than the study's."""
    checks = [cell.check for cell in cells]
    if coverage.named:
        return every(checks)
    decided = [check for check in checks if check.holds is not None]
    return (some if coverage.one else every)(decided or checks)


def _spans(cells: Sequence[CellCheck], roles: Sequence[Role] = ()) -> bool:
    """Whether the cells cover enough sizes, and all roles."""
    sizes = {cell.size for cell in cells}
    models = {cell.role for cell in cells}
    return (
        len(sizes) >= LEAST_SIZES
        and max(length for length, _ in sizes) >= LEAST_LENGTH
        and all(role in models for role in roles)
    )


def _contradicts(decided: Sequence[CellCheck], roles: Sequence[Role]) -> bool:
    """Whether all models together, or one of them, fail in every decided cell, at enough sizes."""
    by_model = [own for own in _by_model(decided, roles) if own]
    return any(
        _spans(own, needed) and not any(cell.check.holds for cell in own)
        for own, needed in ((list(decided), roles), *((own, ()) for own in by_model))
    )


def _by_model(cells: Sequence[CellCheck], roles: Sequence[Role]) -> list[list[CellCheck]]:
    return [[cell for cell in cells if cell.role is role] for role in roles]
