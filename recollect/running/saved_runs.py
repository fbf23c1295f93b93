"""Checkpoints of waiting runs: which one each run continues from, and whether it may."""

from collections.abc import Callable, Iterable
from pathlib import Path

from recollect.errors import SpecError, StoreError
from recollect.running.planning.threads import choose_threads
from recollect.running.processes.waiting import Group, Waiting
from recollect.running.shapes import Shapes
from recollect.spec.run import RunSpec
from recollect.store import Store, checkpoint
from recollect.store.checkpoint import FoundCheckpoints, SavedCheckpoint
from recollect.training.environment import Environment, differences
from recollect.training.state import PopulationState


class SavedRuns:
    """The checkpoints of one store."""

    def __init__(
        self,
        store: Store,
        checkpoints: Path,
        shapes: Shapes,
        tell: Callable[[str], None],
        allow_drift: bool = False,
    ):
        """`tell` receives the reason when a checkpoint is not used. `allow_drift`: also use
        checkpoints of another environment.
        """
        self._store, self._checkpoints, self._shapes = store, checkpoints, shapes
        self._tell, self._allow_drift = tell, allow_drift
        self._sought = False  # whether checkpoints were looked for at all
        self._unsaved: dict[str, int] = {}  # by run: the attempt that left no checkpoint

    def find(
        self, waiting: Callable[[str], Waiting | None], begun: Group
    ) -> tuple[list[Waiting], SavedCheckpoint] | None:
        """Return waiting runs that share a checkpoint, and that checkpoint; None if there is none.

        Looking for checkpoints reads them completely. So it happens once, and after that only when
        `begun` holds attempts that have returned to the queue since.
        """
        if self._sought and all(
            self._unsaved.get(run_id) == entry.attempt for run_id, entry in begun.items()
        ):
            return None
        found = self.all()
        for problem in found.problems:
            self._tell(problem)
        usable: dict[str, SavedCheckpoint | None] = {}
        for saved in found.saved:
            members = []
            for entry in filter(None, map(waiting, saved.run_ids)):
                run_id = entry.run.run_id
                if run_id not in usable:
                    usable[run_id] = self.usable(entry.run, found)
                if usable[run_id] == saved:
                    members.append(entry)
            if members:
                self._require_same(saved, members[0].run)
                return members, saved
        self._sought = True
        self._unsaved |= {run_id: entry.attempt for run_id, entry in begun.items()}
        return None

    def all(self) -> FoundCheckpoints:
        return checkpoint.find(self._checkpoints, self._store.key)

    def usable(self, run: RunSpec, found: FoundCheckpoints) -> SavedCheckpoint | None:
        """The latest checkpoint of a run up to which its stored curve is complete.

        Evaluations that the database lost with its log cannot be recomputed from a later step.
        """
        saved = found.of(run.run_id)
        if not saved:
            return None
        there = {point.step for point in self._store.curve(run.run_id)}
        for entry in saved:
            missing = [
                step
                for step in run.train.evaluation_steps()
                if step <= entry.step and step not in there
            ]
            if not missing and entry.step < run.train.steps:
                return entry
            why = (
                f"evaluations from step {missing[0]} on are not in the database, which is older"
                if missing
                else f"the run has only {run.train.steps} steps"
            )
            self._tell(f"run {run.run_id}: its checkpoint at step {entry.step} is not used: {why}")
        return None

    def _require_same(self, saved: SavedCheckpoint, run: RunSpec) -> None:
        """Refuse to continue under another environment, unless `allow_drift` is set."""
        differ = self.drift(saved, run)
        if differ and not self._allow_drift:
            changed = "; ".join(line.partition(": ")[2] for line in differ)
            raise SpecError(
                f"{saved.path}: was saved under another environment ({changed}); bits may differ\n"
                "continue with --allow-drift, which their rows will say, or remove that file to "
                "start its runs over"
            )

    def drift(self, saved: SavedCheckpoint, run: RunSpec) -> tuple[str, ...]:
        """The differences between the checkpoint's environment and this one, one line each."""
        threads = choose_threads(run, self._shapes.threads)
        here = Environment.here(self._shapes.device, threads)
        differ = differences(saved.environment, here)
        return tuple(f"from step {saved.step}: {text}" for text in differ)

    def load(
        self, saved: SavedCheckpoint, runs: Iterable[RunSpec]
    ) -> tuple[PopulationState, dict[str, float]]:
        """Return the state of these runs and the seconds that each took to reach it.

        A file that cannot be the state of its members is refused and set aside.
        """
        loaded = checkpoint.load(saved.path, self._store.key)
        since, members = loaded.state.get("steps_since_evaluation"), len(loaded.run_ids)
        if type(since) is not int or since < 0:
            raise _misfit(saved.path, "it does not say when its members were evaluated last")
        if any(tensor.ndim < 1 or len(tensor) != members for tensor in loaded.tensors.values()):
            raise _misfit(saved.path, f"its tensors are not those of {members} members")
        state = PopulationState(loaded.run_ids, loaded.step, since, loaded.tensors)
        return state.select([run.run_id for run in runs]), loaded.state.get("wall_s", {})


def _misfit(path: Path, why: str) -> StoreError:
    return StoreError(f"{path}: {why}; kept as {checkpoint.set_aside(path).name}")
