"""A claim of the study as code: the models it is about, the rule that decides it, the figure that
shows it and the commands that train its rows.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from recollect.reports.paper.claims import thresholds
from recollect.reports.paper.claims.checks import Check
from recollect.reports.paper.claims.groups import Group, Subject
from recollect.reports.paper.claims.roles import Role
from recollect.reports.paper.claims.thresholds import Threshold
from recollect.reports.paper.study import SIZES

Outcome = Literal["reproduced", "not reproduced", "not enough data"]
Rule = Callable[[Group], Check]


def at_study_size(subject: Subject) -> bool:
    """Whether a subject's task is one of the four of appendix A.2."""
    return subject.size in SIZES


@dataclass(frozen=True, eq=False)
class Claim:
    """One statement of the study.

    What the rule says in words is its docstring; `setting` is what the study decides it on.
    """

    name: str  # C1 ... C26
    statement: str
    setting: str
    figure: str  # `recollect figure NAME DIR` draws it
    roles: tuple[Role, ...]
    thresholds: tuple[Threshold, ...]
    runs: tuple[str, ...]  # presets with what narrows them, as `recollect run paper:` wants them
    rule: Rule
    task: str = "mqar"
    fits: Callable[[Subject], bool] = at_study_size
    contradiction: str = ""  # where the study contradicts itself
    caveat: str = ""  # where it is silent, and what was taken instead

    def __str__(self) -> str:
        return self.name

    @property
    def rule_text(self) -> str:
        """The rule in words, with the thresholds' values in place of their names."""
        words = " ".join(inspect.cleandoc(self.rule.__doc__ or "").split())
        return re.sub(r"\b[A-Z_]{3,}\b", lambda name: _value_text(name.group()), words)

    @property
    def what_to_run(self) -> str:
        """The commands that train what the rule needs, one a line."""
        return "\n".join(f"recollect run paper:{run} --out out" for run in self.runs)


def _value_text(name: str) -> str:
    value = getattr(thresholds, name, None)
    return f"{value:g}" if isinstance(value, Threshold) else name


@dataclass(frozen=True)
class Verdict:
    """What the rows say about a claim."""

    claim: Claim
    verdict: Outcome
    numbers: str  # what it was decided by, with the spread over seeds
    what_to_run: str  # empty once it is decided
    remark: str  # caveats, other readings, what holds at a reduced scale
    # "holds" or "does not hold", with the numbers, on rows of a smaller scale than the study's
    reduced: str = ""
    checks: tuple[Check, ...] = ()  # the single comparisons behind it

    @property
    def figure(self) -> str:
        return self.claim.figure


def claim(
    name: str,
    statement: str,
    setting: str,
    figure: str,
    roles: tuple[Role, ...],
    thresholds: tuple[Threshold, ...],
    runs: tuple[str, ...],
    task: str = "mqar",
    fits: Callable[[Subject], bool] = at_study_size,
    contradiction: str = "",
    caveat: str = "",
) -> Callable[[Rule], Claim]:
    """Makes the rule below it a claim."""
    return partial(
        Claim,
        name,
        statement,
        setting,
        figure,
        roles,
        thresholds,
        runs,
        task=task,
        fits=fits,
        contradiction=contradiction,
        caveat=caveat,
    )
