"""The loop: a population from where it stands to where its last member ends. Yields what happens;
does no I/O.

Before every step the caller gets control (`Ready`): all that came before is accounted for, so it
can save or stop there; it must not wait for the device. Evaluations, ends of members and
compactions happen at the evaluation steps only.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from recollect.rows import Evaluation, StopReason
from recollect.spec.run import RunSpec
from recollect.training.early import EarlyDecisions
from recollect.training.population import Population

# Compact when at least this share of the members has ended: less often, and dead members cost
# steps; more often, and the copies do.
COMPACT_SHARE = 0.25


@dataclass(frozen=True)
class Ready:
    """`step` steps are behind and everything they led to was yielded; the next one follows for
    `members` living members.
    """

    step: int
    members: int


@dataclass(frozen=True)
class End:
    """How a member ended."""

    run: RunSpec
    status: Literal["done", "diverged"]
    diverged_step: int | None = None
    stopped_early: StopReason | None = None


@dataclass(frozen=True)
class Looked:
    """The living members were evaluated after `step` steps; some of them may have ended with that."""

    step: int
    evaluations: dict[str, Evaluation]  # by run id; a member that has diverged has none
    ends: tuple[End, ...]


Event = Ready | Looked


def train(population: Population, decisions: EarlyDecisions) -> Iterator[Event]:
    """Train until every member has ended."""
    looks = set(population.members[0].train.evaluation_steps())
    living = list(population.members)
    while living:
        yield Ready(population.step, len(living))
        population.train_step(population.task.batch("train", population.step))
        if population.step not in looks:
            continue
        found = _look(population, living, decisions)
        yield found
        gone = {end.run.run_id for end in found.ends}
        living = [run for run in living if run.run_id not in gone]
        if living and len(living) <= (1 - COMPACT_SHARE) * len(population.members):
            population.keep([run.run_id for run in living])


def _look(population: Population, living: list[RunSpec], decisions: EarlyDecisions) -> Looked:
    evaluations = dict(zip(population.members, population.evaluate(), strict=True))
    diverged = dict(zip(population.members, population.diverged(), strict=True))
    found, ends = {}, []
    for run in living:
        # The last update can break a run whose training losses were all finite: the test loss
        # tells.
        broken = diverged[run] or (
            0 if math.isfinite(evaluations[run].test_loss) else population.step
        )
        if broken:
            ends.append(End(run, "diverged", diverged_step=broken))
            continue
        found[run.run_id] = evaluations[run]
        reason = decisions.decide(run, evaluations[run])
        if population.step == run.train.steps:
            ends.append(End(run, "done"))
        elif reason is not None:
            ends.append(End(run, "done", stopped_early=reason))
    return Looked(population.step, found, tuple(ends))
