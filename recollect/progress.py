"""What a person sees while a sweep trains: one bar and the best score so far per learning rate, or a line per run."""

import time
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from recollect.analysis import rate_text, score_text
from recollect.notices import Advanced, Notice, PackStarted, Remark, RunEnded, Seen
from recollect.rows import FINISHED, RunRow
from recollect.spec import RunSpec


class Progress:
    """Fed with notices; a rich renderable for a terminal, `line` for everything else."""

    def __init__(self, rows: Sequence[RunRow]):
        steps = {row.run_id: int(row.spec["train"]["steps"]) for row in rows}
        self.runs = len(rows)
        self.ended = sum(row.status in FINISHED for row in rows)
        self._finished = {row.run_id for row in rows if row.status in FINISHED}
        self.total = sum(steps.values())
        self.done = sum(steps[run_id] for run_id in self._finished)
        self._start, self._done_before = time.monotonic(), self.done
        self._best: dict[str, dict[float, float]] = {}
        self._running: dict[str, RunSpec] = {}  # of the current pack, those that have not ended
        self._step = 0  # where they stand
        for row in rows:
            if row.status in FINISHED and row.score is not None:
                self._note_score(row.spec["model"]["mixer"]["name"], float(row.spec["train"]["lr"]), row.score)

    def feed(self, notice: Notice) -> None:
        match notice:
            case PackStarted():
                self.done -= self._step * len(self._running)  # a pack that was given up (out of memory) starts again
                self._running, self._step = {run.run_id: run for run in notice.runs}, notice.from_step
                # Steps behind a checkpoint were made by an earlier process: they count as done, not as speed.
                self.done += notice.from_step * len(notice.runs)
                self._done_before += notice.from_step * len(notice.runs)
            case Advanced():
                self._step += 1
                self.done += notice.members
            case Seen():
                for run_id, evaluation in notice.evaluations.items():
                    run = self._running[run_id]
                    score = evaluation.score(run.task.score_name)
                    self._note_score(run.model.mixer.name, run.train.lr, score)
            case RunEnded():
                self.ended += 1
                # A run that was solved, diverged or failed makes fewer steps than planned; one that failed at once makes none.
                made = self._step if self._running.pop(notice.run.run_id, None) else 0
                skipped = notice.run.train.steps - made
                self.done += skipped
                self._done_before += skipped
            case Remark():
                pass

    def _note_score(self, mixer: str, rate: float, score: float) -> None:
        best = self._best.setdefault(mixer, {})
        best[rate] = max(score, best.get(rate, 0.0))

    @property
    def remaining_s(self) -> float | None:
        """Seconds to the end of the whole sweep at the speed so far."""
        made, spent = self.done - self._done_before, time.monotonic() - self._start
        return spent / made * (self.total - self.done) if made else None

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
            f"{self.ended} of {self.runs} runs", ProgressBar(total=1.0, completed=share, width=40), f"{share:4.0%}", left
        )
        return Group(bar, self._scores())

    def _scores(self) -> Table:
        rates = sorted({rate for best in self._best.values() for rate in best})
        table = Table("best score so far", *map(rate_text, rates[-12:]), box=None, padding=(0, 1), header_style="dim")
        for mixer, best in self._best.items():
            table.add_row(mixer, *(score_text(best[rate]) if rate in best else "" for rate in rates[-12:]))
        return table


def _ending(notice: RunEnded) -> str:
    run, last = notice.run, notice.last
    name = f"{run.model.mixer.name} width={run.model.width} lr={rate_text(run.train.lr)} seed={run.seed}"
    score = "" if last is None else f" {run.task.score_name}={last.score(run.task.score_name):.3f}"
    detail = f" ({notice.detail})" if notice.detail else ""
    return f"{notice.status} {name}{score} steps={notice.steps}{detail}"


def _eta(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return ", " + (
        f"{hours} h {minutes} min left" if hours else f"{minutes} min {rest} s left" if minutes else f"{rest} s left"
    )
