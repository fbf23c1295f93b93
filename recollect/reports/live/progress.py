"""The progress of a sweep in training: a bar and the best score so far per learning rate, or a line
per run.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from recollect.analysis import rate_text, score_text
from recollect.analysis.naming import names_by_run
from recollect.analysis.wording import between_text, time_text
from recollect.reports.live.likely import LikelyRuns
from recollect.rows import RunRow
from recollect.running.events import (
    Advanced,
    Event,
    GivenUp,
    PackStarted,
    Remark,
    RunEnded,
    RunProgress,
    RunsEvaluated,
    SearchRound,
)
from recollect.running.planning.speed import SpeedModel, WorkLeft
from recollect.running.processes.watching import DeviceSpeeds
from recollect.spec.cell import cell_id
from recollect.spec.run import RunSpec

FORETELLING_SHARE = 0.02  # the largest share of the time that estimating the rest may take


@dataclass
class _Pack:
    """Runs that train in lock step."""

    example: RunSpec  # one of its runs; all have the same shape
    running: dict[str, RunSpec]  # the runs that have not ended
    step: int  # steps made so far


class Progress:
    """The progress of a training, updated by its events.

    It is a rich renderable for a terminal; `line` gives text for other outputs.
    """

    def __init__(
        self,
        rows: Sequence[RunRow],
        operations: Callable[[RunSpec], int | None] = lambda run: None,
        processes: int = 1,
        step_s: Mapping[str, float] | None = None,
        likely: Mapping[str, int] | None = None,
    ):
        """`operations` counts the operations of a run-step. `step_s` holds the seconds per run-step
        of shapes that were timed before. `likely` holds the number of todo runs that should be
        trained of each cell that is searched, by cell id.
        """
        self.processes, self.devices = processes, DeviceSpeeds()
        self._runs = {row.run_id for row in rows}
        self._ended = {row.run_id for row in rows if row.is_finished}
        self.total = sum(int(row.spec["train"]["steps"]) for row in rows)
        self._names = names_by_run(rows)
        self._speeds = SpeedModel(count=operations)
        self._work = WorkLeft(self._speeds)
        self._likely = LikelyRuns(likely or {})
        self._left_elsewhere: dict[str, int] = {}  # steps left of runs in other processes
        self._best: dict[str, dict[float, float]] = {}
        self._packs: dict[int, _Pack] = {}
        self._since = time.monotonic()  # time before this is already accounted for
        self._foretold: tuple[float | None, float | None] = (None, None)
        self._foretold_at, self._foretelling_s = 0.0, 0.0
        self._search = ""  # progress of a search, if any; a search does not train all runs
        self._take_over(rows, step_s or {})

    def _take_over(self, rows: Sequence[RunRow], step_s: Mapping[str, float]) -> None:
        """Include the results that the folder holds before this training."""
        cells: dict[str, RunSpec | None] = {}  # one run per cell: parsing all runs takes long
        run: RunSpec | None
        for row in rows:
            if not row.is_finished:
                self._plan(run := RunSpec.parse(row.spec), cell_id(row.spec))
            else:
                self._note_row(row)
                if (cell := cell_id(row.spec)) not in cells:
                    cells[cell] = RunSpec.parse_known(row.spec)
                if (run := cells[cell]) and row.has_result and row.steps:
                    self._work.note(run, row.steps)
            if run and run.shape_id in step_s:
                self._speeds.measure(run, step_s[run.shape_id])

    def _plan(self, run: RunSpec, cell: str) -> None:
        self._work.plan(run)
        self._likely.plan(run.run_id, cell, run.shape_id, run.train.steps)

    def _begin(self, run: RunSpec) -> None:
        self._work.begin(run)
        self._likely.begin(run.run_id)

    @property
    def runs(self) -> int:
        """The number of known runs. It grows if another process plans more in this folder."""
        return len(self._runs)

    @property
    def ended(self) -> int:
        """The number of runs that have ended, before this training or during it."""
        return len(self._ended)

    @property
    def done(self) -> int:
        """Run-steps that are made or no longer needed."""
        return self.total - self._work.run_steps

    @property
    def remaining_s(self) -> float | None:
        """Estimated seconds to the end of all runs but those that no search needs; None before
        there is an estimate.
        """
        unneeded = self._likely.unneeded()
        if (seconds := self._work.seconds_without(unneeded)) is None:
            return self.devices.seconds(self._work.run_steps - unneeded.total())
        return seconds / self.processes

    @property
    def likely_s(self) -> float | None:
        """Estimated seconds if searches train as many runs as they should; None if unknown."""
        seconds = self._work.seconds_with(self._likely.run_steps())
        return None if seconds is None else seconds / self.processes

    def feed(self, event: Event) -> None:
        work = self._work
        match event:
            case PackStarted():
                self._packs[event.pack] = pack = _Pack(
                    event.runs[0], {run.run_id: run for run in event.runs}, event.from_step
                )
                for run in event.runs:
                    self._meet(run)
                    self._begin(run)
                # Steps before a checkpoint were made by an earlier process: they are done, but they
                # give no information about speed.
                work.move(pack.example.shape_id, event.from_step * len(event.runs))
                self._since = time.monotonic()
            case Advanced():
                now = time.monotonic()
                pack = self._packs[event.pack]
                self._speeds.learn(pack.example, event.members, now - self._since)
                self._since = now
                pack.step += 1
                work.move(pack.example.shape_id, event.members)
            case GivenUp():
                gone = self._packs.pop(event.pack, None)  # None if it did not start
                if gone is not None:
                    work.move(gone.example.shape_id, -gone.step * len(gone.running))
            case RunsEvaluated():
                for run_id, evaluation in event.evaluations.items():
                    run = self._packs[self._pack_of(run_id)].running[run_id]
                    score = evaluation.score(run.task.score_name)
                    self._note_score(self._name(run), run.train.lr, score)
            case RunProgress():
                self._move(event)
            case SearchRound():
                self._search = f"{event.sweep}: {event.text}"
                self._likely.update(event.likely)
            case RunEnded():
                self._meet(event.run)
                self._ended.add(event.run.run_id)
                failed = event.status == "failed"  # its steps do not predict when other runs end
                self._likely.begin(event.run.run_id)
                work.end(event.run, event.run.train.steps if failed else event.steps)
                work.move(event.run.shape_id, self._left_of(event.run))

    def _meet(self, run: RunSpec) -> None:
        """Add a run that is not known yet.

        A worker trains all runs of its folder, including those planned after it started.
        """
        if run.run_id not in self._runs:
            self._runs.add(run.run_id)
            self.total += run.train.steps
            self._plan(run, cell=run.run_id)  # no search is known to choose it

    def _move(self, event: RunProgress) -> None:
        """Record the progress of a run in another process: its steps left, time and score."""
        run = event.run
        before = self._left_elsewhere.get(run.run_id, run.train.steps)
        self._begin(run)
        self._work.move(run.shape_id, before - event.left)
        self._left_elsewhere[run.run_id] = event.left
        if event.made:
            self._speeds.learn(run, event.made, event.seconds)
        if event.score is not None:
            self._note_score(self._name(run), run.train.lr, event.score)

    def _left_of(self, run: RunSpec) -> int:
        """The steps that an ended run will not make.

        A run that was stopped, diverged or failed makes fewer steps than planned. A run that failed
        at once makes none.
        """
        if run.run_id in self._left_elsewhere:
            return self._left_elsewhere.pop(run.run_id)
        number = self._pack_of(run.run_id)
        if number not in self._packs:  # it did not start
            return run.train.steps
        pack = self._packs[number]
        del pack.running[run.run_id]
        if not pack.running:
            del self._packs[number]
        return run.train.steps - pack.step

    def _pack_of(self, run_id: str) -> int:
        """The number of the pack that trains the run; -1 if there is none."""
        return next((n for n, pack in self._packs.items() if run_id in pack.running), -1)

    def _foretell(self) -> list[float | None]:
        """`remaining_s` and, for a search, `likely_s`, computed rarely enough to take only a small
        share of the time.

        In a sweep with thousands of shapes the computation takes long.
        """
        now = time.monotonic()
        if now - self._foretold_at >= self._foretelling_s / FORETELLING_SHARE:
            self._foretold = self.remaining_s, self.likely_s if self._search else None
            self._foretold_at, self._foretelling_s = now, time.monotonic() - now
        passed = now - self._foretold_at
        return [None if known is None else max(0.0, known - passed) for known in self._foretold]

    def _note_row(self, row: RunRow) -> None:
        if row.score is not None:
            self._note_score(self._names[row.run_id], float(row.spec["train"]["lr"]), row.score)

    def _name(self, run: RunSpec) -> str:
        """The name of the run's cell; the mixer's name if the run was planned after the start."""
        return self._names.get(run.run_id, run.model.mixer.name)

    def _note_score(self, name: str, rate: float, score: float) -> None:
        best = self._best.setdefault(name, {})
        best[rate] = max(score, best.get(rate, 0.0))

    def line(self, event: Event) -> str | None:
        """The log line for an event; None if it needs none."""
        match event:
            case RunEnded():
                left = self._left()
                return f"[{self.ended}/{self.runs}] {_ending(event, self._name(event.run))}{left}"
            case Remark():
                return event.text
            case SearchRound():
                return self._search
            case _:
                return None

    def __rich__(self) -> RenderableType:
        bar = Table.grid(padding=(0, 1))
        share = self.done / self.total if self.total else 1.0
        left = self._left().lstrip(", ")
        bar.add_row(
            f"{self.ended} of {self.runs} runs",
            ProgressBar(total=1.0, completed=share, width=40),
            f"{share:4.0%}",
            left,
        )
        more = [Text(text) for text in (self.devices.now(), self._search) if text]
        return Group(bar, *more, self._scores())

    def _left(self) -> str:
        """The time left in words. For a search, which does not train all runs, an estimate and an
        upper limit.
        """
        most, likely = self._foretell()
        if most is None:
            return ""
        if not self._search:
            return f", {time_text(most)} left"
        return f", {between_text(likely, most)} left"

    def _scores(self) -> Table:
        rates = sorted({rate for best in self._best.values() for rate in best})
        table = Table(
            "best score so far",
            *map(rate_text, rates[-12:]),
            box=None,
            padding=(0, 1),
            header_style="dim",
        )
        for name, best in self._best.items():
            table.add_row(
                Text(name),
                *(score_text(best[rate]) if rate in best else "" for rate in rates[-12:]),
            )
        return table


def _ending(event: RunEnded, cell: str) -> str:
    run, last = event.run, event.last
    width = "" if "width" in cell else f" width={run.model.width}"
    name = f"{cell}{width} lr={rate_text(run.train.lr)} seed={run.seed}"
    score = "" if last is None else f" {run.task.score_name}={last.score(run.task.score_name):.3f}"
    # The steps of a failed run are not known if it was ended from outside its training.
    steps = "" if event.status == "failed" and not event.steps else f" steps={event.steps}"
    detail = f" ({event.detail})" if event.detail else ""
    return f"{event.status} {name}{score}{steps}{detail}"
