"""One claimed pack from its checkpoint, or from its start, to its end.

Its worker moves it on, a step at a time.
"""

import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import torch

from recollect.errors import ResourceError
from recollect.running.events import Advanced, Notice, PackStarted, RunEnded, Seen
from recollect.spec.run import RunSpec
from recollect.store import Store, checkpoint
from recollect.store.records import Result
from recollect.store.weights import Keeper
from recollect.tasks.base import Task
from recollect.training.early import EarlyDecisions
from recollect.training.loop import End, Looked, Ready, train
from recollect.training.population import Population, PopulationState

HEARTBEAT_S = 10.0
SAVE_EVERY_S = 0.5  # at least this long between checkpoints ...
SAVE_SHARE = 0.02  # ... and so long that saving takes at most this share of the time


@dataclass(frozen=True)
class Surroundings:
    """What a pack needs of its worker."""

    store: Store
    keeper: Keeper
    checkpoints: Path
    device: torch.device
    lease_s: float
    listen: Callable[[Notice], None]
    data: Callable[[RunSpec], Task]
    under_way: Callable[[], int]  # runs of all packs that share the worker's time
    settled: Callable[
        [RunSpec], None
    ]  # told at a pack's first look: by then it has all the memory it wants


class ClaimedPack:
    """Builds its population at the first `advance`."""

    def __init__(
        self,
        around: Surroundings,
        number: int,
        runs: tuple[RunSpec, ...],
        claims: dict[str, int],
        state: PopulationState | None,
        limit: int | None,
    ):
        self.around, self.number, self.runs = around, number, runs
        self.shape_id = runs[0].shape_id
        self.limit = limit  # the most runs that its own may train beside, themselves included
        self.claims = dict(claims)  # of those that have not ended
        self.wall_s = dict.fromkeys(claims, 0.0)
        self._clock = self._saved_at = time.monotonic()
        self._wait_s = SAVE_EVERY_S
        self._population: Population | None = None
        self._steps = self._train(state)
        self._heart = _Heart(around.store, claims, around.lease_s)
        self._heart.start()

    def close(self) -> None:
        """Leases are no longer renewed, and the memory is free."""
        self._heart.stop()
        self._steps.close()
        self._population = None

    def advance(self) -> bool:
        """To the next place between two steps; False if there is none, because every member has
        ended.
        """
        return next(self._steps, False)

    def _train(self, state: PopulationState | None) -> Generator[bool]:
        """Stands between two steps whenever it yields."""
        around = self.around
        self._population = Population(self.runs, around.data(self.runs[0]), around.device)
        if state is not None:
            self._population.restore(state)
        # What an earlier attempt recorded after the checkpoint is dropped.
        around.store.rewind(self.claims, self._population.step)
        decisions = EarlyDecisions()
        for run in self.runs:
            decisions.remember(run, around.store.curve(run.run_id))
        self._clock = self._saved_at = time.monotonic()
        around.listen(PackStarted(self.runs, self._population.step, self.number))
        settled = False
        for event in train(self._population, decisions):
            match event:
                case Ready():
                    yield True
                    if time.monotonic() - self._saved_at >= self._wait_s:
                        self.save()
                    around.listen(Advanced(event.members, self.number))
                case Looked():
                    self._looked(self._population, event)
                    if not settled:
                        around.settled(self.runs[0])
                        settled = True

    def save(self) -> None:
        """A checkpoint, if there is anything to save."""
        if self._population is None:
            return
        start = time.monotonic()
        state = self._population.state()
        content = {"steps_since_evaluation": state.steps_since_evaluation}
        checkpoint.save(
            self.around.checkpoints,
            checkpoint.Checkpoint(state.run_ids, state.step, state.tensors, content),
        )
        self.around.store.progress(self.claims, state.step)
        self._saved_at = time.monotonic()
        self._wait_s = max(SAVE_EVERY_S, (self._saved_at - start) / SAVE_SHARE)

    def _looked(self, population: Population, event: Looked) -> None:
        self._share_time()
        ended = {end.run.run_id for end in event.ends}
        going = {
            run_id: found for run_id, found in event.evaluations.items() if run_id not in ended
        }
        store, keeper, listen = self.around.store, self.around.keeper, self.around.listen
        keeper.look(population, event)
        refused = store.record(self.claims, going.items()) if going else set()
        if event.ends:
            refused |= store.finish([self._result(population, end, event) for end in event.ends])
            keeper.settle(ended - refused)
        listen(Seen(event.evaluations))
        for end in event.ends:
            if end.run.run_id not in refused:
                last = event.evaluations.get(end.run.run_id)
                early = f"{end.stopped_early} early" if end.stopped_early else ""
                detail = f"at step {end.diverged_step}" if end.status == "diverged" else early
                listen(RunEnded(end.run, end.status, last, event.step, detail))
        for run_id in ended:
            self.claims.pop(run_id, None)

    def _share_time(self) -> None:
        """Each living member pays its share of the time since the last look."""
        now = time.monotonic()
        share_s = (now - self._clock) / self.around.under_way()
        for run_id in self.claims:
            self.wall_s[run_id] += share_s
        self._clock = now

    def _result(self, population: Population, end: End, event: Looked) -> Result:
        run_id, device = end.run.run_id, self.around.device
        return Result(
            run_id,
            self.claims[run_id],
            end.status,
            steps=event.step,
            wall_s=self.wall_s[run_id],
            last=event.evaluations.get(run_id),
            stopped_early=end.stopped_early,
            diverged_step=end.diverged_step,
            parameters=population.model.parameters_per_member(),
            state_size=population.model.state_size(),
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            threads=torch.get_num_threads(),
            versions=checkpoint.versions(),
        )


class _Heart(threading.Thread):
    """Renews the leases of a pack while it trains."""

    def __init__(self, store: Store, claims: dict[str, int], lease_s: float):
        super().__init__(daemon=True)
        self.store, self.claims, self.lease_s = store, dict(claims), lease_s
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(min(HEARTBEAT_S, self.lease_s / 6)):
            try:
                self.store.heartbeat(self.claims, self.lease_s)
            except ResourceError:
                continue  # a full disk: the training thread meets it too, and says so

    def stop(self) -> None:
        self.ended.set()
        self.join()
