"""One claimed pack: trains from its checkpoint, or from the start, to its end.

Its worker advances it one step at a time.
"""

import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from recollect.errors import ResourceError
from recollect.running.events import Advanced, Event, PackStarted, RunEnded, RunsEvaluated
from recollect.running.planning.time_shares import PackTime, TimeShares
from recollect.running.shapes import Shapes, kind_of
from recollect.spec.run import RunSpec
from recollect.store import Store, checkpoint
from recollect.store.checkpoint import Checkpoint, SavedCheckpoint
from recollect.store.records import Result
from recollect.store.weights import Keeper
from recollect.training.early import EarlyDecisions
from recollect.training.environment import Environment, code_digest
from recollect.training.loop import BeforeStep, End, Evaluated, train_population
from recollect.training.population import Population
from recollect.training.state import PopulationState

LEASE_S = 60.0
HEARTBEAT_S = LEASE_S / 6
SAVE_EVERY_S = 0.5  # the shortest time between checkpoints ...
SAVE_SHARE = 0.02  # ... which is extended so that saving takes at most this share of the time


@dataclass(frozen=True)
class Choice:
    """Runs that should train together."""

    runs: tuple[RunSpec, ...]
    state: PopulationState | None  # the state to continue from; None: start at step 0
    limit: int | None  # the most runs of this kind that may train at once, these included
    saved: SavedCheckpoint | None = None  # the checkpoint that `state` comes from
    drift: tuple[str, ...] = ()  # see RunRow
    wall_s: Mapping[str, float] = field(default_factory=dict)  # seconds spent by run, up to `state`

    def select(self, run_ids: Collection[str]) -> "Choice":
        """The same choice with only the runs in `run_ids`."""
        runs = tuple(run for run in self.runs if run.run_id in run_ids)
        state = self.state.select([run.run_id for run in runs]) if self.state else None
        return replace(self, runs=runs, state=state)


class Pack:
    """A claimed pack. It builds its population at the first `advance`."""

    def __init__(
        self,
        number: int,
        choice: Choice,
        claims: dict[str, int],
        store: Store,
        keeper: Keeper,
        shapes: Shapes,
        checkpoints: Path,
        listen: Callable[[Event], None],
        shares: TimeShares,
    ):
        self.number, self.runs, self.limit = number, choice.runs, choice.limit
        self.shape_id, self.kind = choice.runs[0].shape_id, kind_of(choice.runs[0])
        self.claims = dict(claims)  # of runs that have not ended
        self.ended: set[str] = set()  # runs whose end is stored
        self.evaluations = 0
        self._store, self._keeper, self._shapes = store, keeper, shapes
        self._checkpoints, self._listen = checkpoints, listen
        # The members of each checkpoint of this pack.
        self._saved_as = {choice.saved.run_ids} if choice.saved else set()
        self.began_from, self._drift = choice.saved, choice.drift
        self._code = code_digest()  # now: the files may change while the pack trains
        self._wall_s = {run_id: choice.wall_s.get(run_id, 0.0) for run_id in claims}
        self._clock = self._saved_at = time.monotonic()
        self._wait_s = SAVE_EVERY_S
        self._time = PackTime(shares)
        self._population: Population | None = None
        self._steps = self._train(choice.state)
        self._heartbeat = _Heartbeat(store, claims)
        self._heartbeat.start()

    def close(self) -> None:
        """Stop renewing leases, free memory, delete checkpoints whose runs have all ended."""
        self._heartbeat.stop()
        self._steps.close()
        self._population = None
        for members in self._saved_as:
            if self.ended.issuperset(members):
                checkpoint.forget(self._checkpoints, members)

    def advance(self) -> bool:
        """Train up to the next point between two steps; return False if every member has ended."""
        return next(self._steps, False)

    @property
    def is_ahead(self) -> bool:
        """Whether the device is so far behind this pack that its next step can wait."""
        return self._population is not None and self._population.is_ahead()

    @property
    def run_steps_left(self) -> int:
        """The run-steps that this pack still has to make if no run ends early."""
        made = self._population.step if self._population else 0
        return len(self.claims) * (self.runs[0].train.steps - made)

    def _train(self, state: PopulationState | None) -> Generator[bool]:
        """Train the pack; each yield is a point between two steps."""
        data = self._shapes.data(self.runs[0])
        self._population = Population(self.runs, data, self._shapes.device)
        if state is not None:
            self._population.restore(state)
        # Drop the evaluations that an earlier attempt recorded after the checkpoint.
        self._store.rewind(self.claims, self._population.step)
        decisions = EarlyDecisions()
        for run in self.runs:
            decisions.remember(run, self._store.curve(run.run_id))
        self._clock = self._saved_at = time.monotonic()
        self._time.restart()
        self._listen(PackStarted(self.runs, self._population.step, self.number))
        for event in train_population(self._population, decisions):
            match event:
                case BeforeStep():
                    yield True
                    if time.monotonic() - self._saved_at >= self._wait_s:
                        self.save()
                    self._time.add_step(self.runs[0], event.members)
                    self._listen(Advanced(event.members, self.number))
                case Evaluated():
                    self._store_evaluations(self._population, event)
                    self.evaluations += 1

    def save(self) -> None:
        """Write a checkpoint, if there is a population to save."""
        if self._population is None:
            return
        start = time.monotonic()
        state = self._population.state()
        self._share_time()
        content = {
            "steps_since_evaluation": state.steps_since_evaluation,
            "wall_s": {run_id: self._wall_s[run_id] for run_id in state.run_ids},
        }
        here = Environment.here(self._shapes.device)
        checkpoint.save(
            self._checkpoints,
            Checkpoint(state.run_ids, state.step, state.tensors, content, here, self._drift),
            self._store.key,
        )
        self._saved_as.add(state.run_ids)
        self._store.progress(self.claims, state.step)
        self._saved_at = time.monotonic()
        self._wait_s = max(SAVE_EVERY_S, (self._saved_at - start) / SAVE_SHARE)

    def _store_evaluations(self, population: Population, event: Evaluated) -> None:
        self._share_time()
        ended = {end.run.run_id for end in event.ends}
        going = {
            run_id: found for run_id, found in event.evaluations.items() if run_id not in ended
        }
        self._keeper.write_evaluated(population, event)
        refused = self._store.record(self.claims, going.items()) if going else set()
        if event.ends:
            results = [self._result(population, end, event) for end in event.ends]
            refused |= self._store.finish(results)
            self._keeper.remove_beaten(ended - refused)
            self.ended |= ended - refused
        self._listen(RunsEvaluated(event.evaluations))
        for end in event.ends:
            if end.run.run_id not in refused:
                last = event.evaluations.get(end.run.run_id)
                early = f"{end.stopped_early} early" if end.stopped_early else ""
                detail = f"at step {end.diverged_step}" if end.status == "diverged" else early
                detail = end.failure or detail
                self._listen(RunEnded(end.run, end.status, last, event.step, detail))
        for run_id in ended:
            self.claims.pop(run_id, None)

    def _share_time(self) -> None:
        """Charge each member that still trains its share of the time since the last call."""
        now = time.monotonic()
        own_s = self._time.charge(now - self._clock)
        for run_id in self.claims:
            self._wall_s[run_id] += own_s / len(self.claims)
        self._clock = now

    def _result(self, population: Population, end: End, event: Evaluated) -> Result:
        run_id, here = end.run.run_id, Environment.here(self._shapes.device)
        return Result(
            run_id,
            self.claims[run_id],
            end.status,
            steps=event.step,
            wall_s=self._wall_s[run_id],
            last=event.evaluations.get(run_id),
            stopped_early=end.stopped_early,
            diverged_step=end.diverged_step,
            failure=end.failure,
            parameters=population.model.parameters_per_member(),
            state_size=population.model.state_size(),
            device=here.device,
            threads=here.threads,
            versions={**here.versions, "code": self._code},
            drift=self._drift,
        )


class _Heartbeat(threading.Thread):
    """Renews the leases of a pack while it trains."""

    def __init__(self, store: Store, claims: dict[str, int]):
        super().__init__(daemon=True)
        self.store, self.claims = store, dict(claims)
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(HEARTBEAT_S):
            try:
                self.store.heartbeat(self.claims, LEASE_S)
            except ResourceError:
                continue  # the disk is full: the training thread meets this too and reports it

    def stop(self) -> None:
        self.ended.set()
        self.join()
