"""The training loop: trains a population from its current step until its last member has ended.

The loop yields events and does no I/O. Before every step the caller gets control (`BeforeStep`).
All earlier events have been yielded by then, so the caller can save or stop there; it must not wait
for the device. Evaluations, ends of members and compactions happen only at evaluation steps.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from recollect.rows import Evaluation, StopReason
from recollect.spec.run import RunSpec
from recollect.training.early import EarlyDecisions
from recollect.training.population import Population

# Compact when at least this share of the members has ended. A larger share wastes steps on ended
# members, a smaller one wastes time on copies.
COMPACT_SHARE = 0.25


NOT_FINITE_AT_START = (
    "bug: the loss of the first step, before any update, is not finite; no learning rate has a "
    "part in it"
)


@dataclass(frozen=True)
class BeforeStep:
    """`step` steps are done, and all their events have been yielded.

    The next step trains `members` members that have not ended.
    """

    step: int
    members: int


@dataclass(frozen=True)
class End:
    """How a member ended."""

    run: RunSpec
    status: Literal["done", "diverged", "failed"]
    diverged_step: int | None = None
    stopped_early: StopReason | None = None
    failure: str | None = None


@dataclass(frozen=True)
class Evaluated:
    """The members that had not ended were evaluated after `step` steps; some may have ended."""

    step: int
    evaluations: dict[str, Evaluation]  # by run id; a member that has diverged has none
    ends: tuple[End, ...]


Event = BeforeStep | Evaluated


def train_population(population: Population, decisions: EarlyDecisions) -> Iterator[Event]:
    """Train until every member has ended."""
    evaluation_steps = set(population.members[0].train.evaluation_steps())
    active = list(population.members)
    while active:
        yield BeforeStep(population.step, len(active))
        population.train_step(population.next_rows())
        if population.step not in evaluation_steps:
            continue
        evaluated = _evaluate(population, active, decisions)
        yield evaluated
        ended = {end.run.run_id for end in evaluated.ends}
        active = [run for run in active if run.run_id not in ended]
        if active and len(active) <= (1 - COMPACT_SHARE) * len(population.members):
            population.compact([run.run_id for run in active])


def _evaluate(
    population: Population, active: list[RunSpec], decisions: EarlyDecisions
) -> Evaluated:
    found = dict(zip(population.members, population.evaluate(), strict=True))
    diverged = dict(zip(population.members, population.diverged(), strict=True))
    evaluations, ends = {}, []
    for run in active:
        # The last update can make a run diverge although all its training losses were finite. Its
        # test loss is then not finite.
        finite = math.isfinite(found[run].test_loss)
        diverged_step = diverged[run] or (0 if finite else population.step)
        if diverged[run] == 1:
            ends.append(End(run, "failed", failure=NOT_FINITE_AT_START))
            continue
        if diverged_step:
            ends.append(End(run, "diverged", diverged_step=diverged_step))
            continue
        evaluations[run.run_id] = found[run]
        reason = decisions.decide(run, found[run])
        if population.step == run.train.steps:
            ends.append(End(run, "done"))
        elif reason is not None:
            ends.append(End(run, "done", stopped_early=reason))
    return Evaluated(population.step, evaluations, tuple(ends))
