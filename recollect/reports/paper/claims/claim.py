"""A claim as code: the models it is about, the rule that decides each of its cells, the figure that
shows it and the commands that train its rows.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from recollect.reports.paper.claims import thresholds
from recollect.reports.paper.claims.checks import Check
from recollect.reports.paper.claims.coverage import EVERY, CellCheck, Coverage, Outcome, Tally
from recollect.reports.paper.claims.groups import Group, Subject
from recollect.reports.paper.claims.roles import Role
from recollect.reports.paper.claims.thresholds import WINDOW, Threshold
from recollect.reports.paper.claims.wanted import Want
from recollect.reports.paper.study import SIZES

LEAST_RIVAL = 0.1  # the share of resamples from which another verdict is named
Origin = Literal["study", "ours"]
Rule = Callable[[Group], Sequence[CellCheck]]


def at_study_size(subject: Subject) -> bool:
    """Whether a subject's task has one of the four sizes of appendix A.2."""
    return subject.size in SIZES


@dataclass(frozen=True, eq=False)
class Claim:
    """One statement of the study.

    The docstring of the rule states it in words; `setting` is the setting in which the study makes
    the statement.
    """

    name: str  # C1, C2, ...
    statement: str
    setting: str
    figure: str  # `recollect figure NAME DIR` draws it
    roles: tuple[Role, ...]
    thresholds: tuple[Threshold, ...]
    runs: tuple[str, ...]  # presets with overrides: arguments for `recollect run paper:`
    rule: Rule
    coverage: Coverage = EVERY
    models: tuple[Role, ...] = ()  # if the claim names no cells: the models that must have cells
    task: str = "mqar"
    fits: Callable[[Subject], bool] = at_study_size
    varies: tuple[str, ...] = ()  # settings of the recipe that the claim itself changes
    is_drawn: bool = True  # False: it reads nothing that draws of other seeds change
    origin: Origin = "study"  # "ours": not in the study's words
    contradiction: str = ""  # where the study contradicts itself
    caveat: str = ""  # where the study is silent, and what was chosen instead

    def __str__(self) -> str:
        return self.name

    @property
    def shown_statement(self) -> str:
        """The statement, marked if it is not the study's."""
        return f"{self.statement} (ours)" if self.origin == "ours" else self.statement

    @property
    def has_window(self) -> bool:
        """Whether it depends on tau, the score from which a rate belongs to a window."""
        return any(threshold is WINDOW for threshold in self.thresholds)

    @property
    def rule_text(self) -> str:
        """The rule in words, with the thresholds' values in place of their names."""
        words = " ".join(inspect.cleandoc(self.rule.__doc__ or "").split())
        return re.sub(r"\b[A-Z_]{3,}\b", lambda name: _value_text(name.group()), words)

    @property
    def what_to_run(self) -> str:
        """The commands that train everything the rule may need, one per line."""
        return "\n".join(f"recollect run paper:{run} --out out" for run in self.runs)


def _value_text(name: str) -> str:
    value = getattr(thresholds, name, None)
    return f"{value:g}" if isinstance(value, Threshold) else name


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim by the rows of one recipe."""

    claim: Claim
    recipe: str
    tally: Tally
    numbers: str  # the numbers that decided it, with the spread over seeds
    remark: str  # caveats, other readings, what holds at a reduced scale
    cells: tuple[CellCheck, ...] = ()
    # The kinds of verdict on draws of other seeds with their shares, the most frequent first.
    resampled: tuple[tuple[str, float], ...] = ()
    by_tau: tuple[tuple[float, Tally], ...] = ()  # only for a claim about windows
    wants: tuple[Want, ...] = ()  # untrained cells that may change the verdict
    # "holds" or "does not hold", with the numbers, on rows of a smaller scale than the study's.
    reduced: str = ""

    @property
    def outcome(self) -> Outcome:
        return self.tally.outcome

    @property
    def kind(self) -> str:
        return self.tally.kind

    @property
    def words(self) -> str:
        return self.tally.words

    @property
    def firmness(self) -> float | None:
        """The share of draws of other seeds with the same kind of verdict; None without draws."""
        return dict(self.resampled).get(self.kind, 0.0) if self.resampled else None

    @property
    def rival(self) -> tuple[str, float] | None:
        """The other kind of verdict that other seeds give most often, if not hardly ever."""
        others = [(kind, share) for kind, share in self.resampled if kind != self.kind]
        return others[0] if others and others[0][1] >= LEAST_RIVAL else None

    @property
    def figure(self) -> str:
        return self.claim.figure

    @property
    def checks(self) -> tuple[Check, ...]:
        """The single comparisons behind it."""
        return tuple(leaf for cell in self.cells for leaf in cell.check.leaves)

    @property
    def run_steps(self) -> int:
        """Run-steps of all cells that are still wanted."""
        return sum(want.run_steps(self.recipe) for want in self.wants)

    @property
    def disagreement(self) -> str:
        """The verdicts at each tau if they differ; empty if they agree.

        They agree if all decided cells hold at each tau, or all fail, however many are decided.
        """
        told = {tau: found for tau, found in self.by_tau if found.outcome != "not enough data"}
        if len({(found.holding > 0, found.fails) for found in told.values()}) < 2:
            return ""
        return "depends on tau: " + ", ".join(
            f"{found.words} at {tau:g}" for tau, found in told.items()
        )

    @property
    def other_taus(self) -> str:
        """Where no decided cell turns with tau, the verdicts with more or fewer decided cells than
        at the first tau; empty if there are none.
        """
        if not self.by_tau or self.disagreement:
            return ""
        (_, first), *others = self.by_tau
        return ", ".join(
            f"{found.words} at {tau:g}" for tau, found in others if found.words != first.words
        )


def claim(
    name: str,
    statement: str,
    setting: str,
    figure: str,
    roles: tuple[Role, ...],
    thresholds: tuple[Threshold, ...],
    runs: tuple[str, ...],
    coverage: Coverage = EVERY,
    models: tuple[Role, ...] = (),
    task: str = "mqar",
    fits: Callable[[Subject], bool] = at_study_size,
    varies: tuple[str, ...] = (),
    is_drawn: bool = True,
    origin: Origin = "study",
    contradiction: str = "",
    caveat: str = "",
) -> Callable[[Rule], Claim]:
    """A decorator that turns a rule into a claim."""
    return partial(
        Claim,
        name,
        statement,
        setting,
        figure,
        roles,
        thresholds,
        runs,
        coverage=coverage,
        models=models,
        task=task,
        fits=fits,
        varies=varies,
        is_drawn=is_drawn,
        origin=origin,
        contradiction=contradiction,
        caveat=caveat,
    )
