"""The results of earlier attempts at a pack, and the point from which the next one continues."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from recollect.errors import StoreError
from recollect.rows import Evaluation
from recollect.running.cluster.spool import (
    Attempt,
    SpoolContent,
    attempts,
    checkpoint_folder,
    read_spool,
)
from recollect.spec.run import RunSpec
from recollect.store import MAX_LOST, checkpoint
from recollect.store.records import Result


@dataclass(frozen=True)
class PackHistory:
    """What the earlier attempts at one pack have left."""

    results: Mapping[str, Result]  # of the runs that ended
    inherited: Mapping[str, tuple[Evaluation, ...]]  # curves up to the checkpoint in use
    checkpoints: tuple[Path, ...]  # files to copy
    lost: int  # the last attempts in a row that made no progress and wrote no last record
    tried: tuple[str, ...]  # the runs that the last of these attempts trained together
    problems: tuple[str, ...]

    @property
    def is_hopeless(self) -> bool:
        """Whether one run, training alone, has ended MAX_LOST processes and so counts as failed."""
        return self.lost >= MAX_LOST and len(self.tried) == 1

    def most_together(self, runs: int) -> int | None:
        """The most runs to train together; None for as many as fit.

        An attempt without progress may have run out of memory, so each one halves the number.
        """
        return max(1, runs >> self.lost) if self.lost else None


def read_history(
    folder: Path,
    pack: int,
    runs: Mapping[str, RunSpec],
    retry_failed: bool = False,
    key: bytes = b"",
) -> PackHistory:
    """Read the history of a pack from the spools visible on this machine. `key`: of the plan."""
    contents, problems = _read_spools(folder, pack)
    results: dict[str, Result] = {}
    for content in contents:
        for run_id, result in content.results.items():
            if run_id in runs and (run_id not in results or results[run_id].status == "failed"):
                results[run_id] = result
    if retry_failed:
        results = {run_id: found for run_id, found in results.items() if found.status != "failed"}
    open_runs = {run_id: run for run_id, run in runs.items() if run_id not in results}
    inherited: dict[str, tuple[Evaluation, ...]] = {}
    chosen: dict[str, tuple[int, Path]] = {}
    for content in contents:
        found = checkpoint.find(checkpoint_folder(folder, pack) / content.attempt.name, key)
        problems += found.problems
        for saved in found.saved:
            for run_id in saved.run_ids:
                better = run_id not in chosen or saved.step > chosen[run_id][0]
                if run_id in open_runs and better:
                    curve = _curve_to(content, open_runs[run_id], saved.step)
                    if curve is not None:
                        chosen[run_id], inherited[run_id] = (saved.step, saved.path), curve
    lost, tried = _count_lost(contents)
    paths = dict.fromkeys(path for _, path in chosen.values())
    return PackHistory(results, inherited, tuple(paths), lost, tried, tuple(problems))


def _read_spools(folder: Path, pack: int) -> tuple[list[SpoolContent], list[str]]:
    contents, problems = [], []
    for attempt in attempts(folder, pack):
        try:
            contents.append(read_spool(folder, pack, attempt))
        except StoreError as error:  # its runs are trained again
            problems.append(str(error))
            contents.append(SpoolContent(Attempt(attempt.name)))
    return contents, problems


def _curve_to(content: SpoolContent, run: RunSpec, step: int) -> tuple[Evaluation, ...] | None:
    """All points up to a step; None if one is missing, since the curve could not be completed."""
    curve = content.curves.get(run.run_id, {})
    due = [at for at in run.train.evaluation_steps() if at <= step]
    return tuple(curve[at] for at in due) if curve.keys() >= set(due) else None


def _count_lost(contents: list[SpoolContent]) -> tuple[int, tuple[str, ...]]:
    """Count the last attempts in a row that went no further than those before them.

    Attempts that wrote a last record, or had not begun to train, do not count. Also returns the
    runs that the last of the counted attempts trained together.
    """
    lost, furthest = 0, -1
    tried: tuple[str, ...] = ()
    for content in contents:
        if content.furthest > furthest or content.results:
            lost, tried, furthest = 0, (), max(furthest, content.furthest)
        elif not content.ended and content.tried:
            lost, tried = lost + 1, content.tried
    return lost, tried
