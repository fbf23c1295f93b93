"""What a person sees while a sweep trains: one bar and the best score so far per learning rate, or
a line per run.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from recollect.analysis import rate_text, score_text
from recollect.rows import FINISHED, Evaluation, RunRow
from recollect.running.events import Advanced, GivenUp, Notice, PackStarted, Remark, RunEnded, Seen
from recollect.running.planning.pace import Pace
from recollect.spec.run import RunSpec


@dataclass
class _Pack:
    """Runs that train in lock step."""

    shape_id: str
    running: dict[str, RunSpec]  # those that have not ended
    step: int  # where they stand


class Progress:
    """Fed with the notices of one worker, or with the rows of a store that others fill.

    A rich renderable for a terminal; `line` and what `look` returns for everything else.
    """

    def __init__(
        self,
        rows: Sequence[RunRow],
        operations: Callable[[RunSpec], int | None] = lambda run: None,
        workers: int = 1,
    ):
        self.runs, self.workers = len(rows), workers
        self.ended = sum(row.status in FINISHED for row in rows)
        self.total = sum(int(row.spec["train"]["steps"]) for row in rows)
        self._todo = {
            row.run_id: RunSpec.parse(row.spec) for row in rows if row.status not in FINISHED
        }
        self._pace = Pace(self._todo.values(), operations)
        self._best: dict[str, dict[float, float]] = {}
        self._packs: dict[int, _Pack] = {}
        self._since = time.monotonic()  # up to when time is accounted for
        for row in rows:
            if row.status in FINISHED:
                self._note_row(row)

    @property
    def done(self) -> int:
        """Run-steps that need not be made any more."""
        return self.total - sum(self._pace.left.values())

    @property
    def remaining_s(self) -> float | None:
        """Seconds to the end of the whole sweep."""
        seconds = self._pace.seconds
        return None if seconds is None else seconds / self.workers

    # ---- one worker's notices ----

    def feed(self, notice: Notice) -> None:
        left = self._pace.left
        match notice:
            case PackStarted():
                shape = notice.runs[0].shape_id
                self._packs[notice.pack] = _Pack(
                    shape, {run.run_id: run for run in notice.runs}, notice.from_step
                )
                # Steps behind a checkpoint were made by an earlier process: they are done, but tell
                # nothing about speed.
                left[shape] -= notice.from_step * len(notice.runs)
                self._since = time.monotonic()
            case Advanced():
                now = time.monotonic()
                pack = self._packs[notice.pack]
                self._pace.took(pack.shape_id, notice.members, now - self._since)
                self._since = now
                pack.step += 1
                left[pack.shape_id] -= notice.members
            case GivenUp():
                gone = self._packs.pop(notice.pack, None)  # none if it did not even start
                if gone is not None:
                    left[gone.shape_id] += gone.step * len(gone.running)
            case Seen():
                for run_id, evaluation in notice.evaluations.items():
                    run = self._pack_of(run_id).running[run_id]
                    score = evaluation.score(run.task.score_name)
                    self._note_score(run.model.mixer.name, run.train.lr, score)
            case RunEnded():
                self.ended += 1
                # A run that was stopped, diverged or failed makes fewer steps than planned; one
                # that failed at once makes none.
                pack = self._pack_of(notice.run.run_id)
                made = pack.step if pack.running.pop(notice.run.run_id, None) else 0
                left[notice.run.shape_id] -= notice.run.train.steps - made
            case Remark():
                pass

    def _pack_of(self, run_id: str) -> _Pack:
        return next(
            (pack for pack in self._packs.values() if run_id in pack.running), _Pack("", {}, 0)
        )

    # ---- a store that others fill ----

    def look(self, rows: Sequence[RunRow]) -> list[str]:
        """Take over what the store says now; a line for each run that has ended since the last
        look.
        """
        left = self._pace.left
        left.clear()
        lines = []
        for row in rows:
            run = self._todo.get(row.run_id)
            if run is None:
                continue
            if row.status not in FINISHED:
                left[run.shape_id] += run.train.steps - (row.steps or 0)
                self._note_row(row)
                continue
            del self._todo[row.run_id]
            self.ended += 1
            self._note_row(row)
            if row.wall_s and row.steps:
                self._pace.took(run.shape_id, row.steps, row.wall_s)
            lines.append(f"[{self.ended}/{self.runs}] {_ending(row_ended(run, row))}")
        return [f"{line}{_eta(self.remaining_s)}" for line in lines]

    def _note_row(self, row: RunRow) -> None:
        if row.score is not None:
            self._note_score(
                row.spec["model"]["mixer"]["name"], float(row.spec["train"]["lr"]), row.score
            )

    def _note_score(self, mixer: str, rate: float, score: float) -> None:
        best = self._best.setdefault(mixer, {})
        best[rate] = max(score, best.get(rate, 0.0))

    def told(self, notice: Notice) -> list[str]:
        """Feed and tell."""
        self.feed(notice)
        line = self.line(notice)
        return [line] if line else []

    def line(self, notice: Notice) -> str | None:
        """What a log should hold of this notice."""
        match notice:
            case RunEnded():
                return f"[{self.ended}/{self.runs}] {_ending(notice)}{_eta(self.remaining_s)}"
            case Remark():
                return notice.text
            case _:
                return None

    def __rich__(self) -> RenderableType:
        bar = Table.grid(padding=(0, 1))
        share = self.done / self.total if self.total else 1.0
        left = _eta(self.remaining_s).lstrip(", ")
        bar.add_row(
            f"{self.ended} of {self.runs} runs",
            ProgressBar(total=1.0, completed=share, width=40),
            f"{share:4.0%}",
            left,
        )
        return Group(bar, self._scores())

    def _scores(self) -> Table:
        rates = sorted({rate for best in self._best.values() for rate in best})
        table = Table(
            "best score so far",
            *map(rate_text, rates[-12:]),
            box=None,
            padding=(0, 1),
            header_style="dim",
        )
        for mixer, best in self._best.items():
            table.add_row(
                mixer, *(score_text(best[rate]) if rate in best else "" for rate in rates[-12:])
            )
        return table


def row_ended(run: RunSpec, row: RunRow) -> RunEnded:
    """The end of a run that another process trained, as its worker would have told it."""
    early = f"{row.stopped_early} early" if row.stopped_early else ""
    detail = row.failure or (f"at step {row.diverged_step}" if row.status == "diverged" else early)
    last = None
    if row.accuracy is not None and row.exact is not None and row.status == "done":
        last = Evaluation(
            row.steps or 0, row.train_loss or 0.0, row.test_loss or 0.0, row.accuracy, row.exact
        )
    return RunEnded(run, row.status, last, row.steps or 0, detail)


def _ending(notice: RunEnded) -> str:
    run, last = notice.run, notice.last
    name = (
        f"{run.model.mixer.name} width={run.model.width} "
        f"lr={rate_text(run.train.lr)} seed={run.seed}"
    )
    score = "" if last is None else f" {run.task.score_name}={last.score(run.task.score_name):.3f}"
    detail = f" ({notice.detail})" if notice.detail else ""
    return f"{notice.status} {name}{score} steps={notice.steps}{detail}"


def _eta(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return ", " + (
        f"{hours} h {minutes} min left"
        if hours
        else f"{minutes} min {rest} s left"
        if minutes
        else f"{rest} s left"
    )
