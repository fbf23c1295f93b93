"""The view of a sweep: what is counted as done whatever happens to a run, and how it looks on a
terminal and in a log.
"""

import itertools
from dataclasses import replace

import pytest
from shown import rendered

from recollect.reports.live import progress as view
from recollect.reports.live.progress import Progress
from recollect.rows import Evaluation, RunRow
from recollect.running.events import (
    Advanced,
    GivenUp,
    PackStarted,
    Remark,
    RunEnded,
    RunsEvaluated,
    SearchRound,
)
from recollect.running.processes.watching import RowWatcher
from recollect.spec.run import RunSpec


@pytest.fixture
def runs(make_run) -> tuple[RunSpec, ...]:
    return tuple(make_run({"train.lr": lr, "train.steps": 100}) for lr in (1e-3, 1e-2, 1e-1))


@pytest.fixture(autouse=True)
def _reckoned_for_every_line(monkeypatch):
    monkeypatch.setattr(view, "FORETELLING_SHARE", 1e9)


def row(run: RunSpec, status: str = "todo", accuracy: float | None = None) -> RunRow:
    return RunRow(
        run.run_id, run.model_dump(mode="json"), status, "accuracy", 0.25, accuracy=accuracy
    )


def looked(accuracy: float) -> Evaluation:
    return Evaluation(50, 1.0, 1.0, accuracy, 0.5)


def feed(progress: Progress, *events: object) -> Progress:
    for event in events:
        progress.feed(event)
    return progress


def advance(progress: Progress, steps: int, members: int) -> Progress:
    return feed(progress, *itertools.repeat(Advanced(members), steps))


# ---- counting ----


def test_a_sweep_ends_at_all_its_steps(runs):
    progress = feed(Progress([row(run) for run in runs]), PackStarted(runs, 0))
    assert (progress.total, progress.done) == (300, 0)
    advance(progress, 100, 3)
    feed(progress, *(RunEnded(run, "done", looked(0.9), 100) for run in runs))
    assert (progress.done, progress.ended) == (300, 3)


def test_runs_that_end_early_count_in_full(runs):
    progress = feed(Progress([row(run) for run in runs]), PackStarted(runs, 0))
    advance(progress, 50, 3)
    feed(
        progress,
        RunEnded(runs[0], "done", looked(1.0), 50, "solved early"),
        RunEnded(runs[1], "diverged", None, 50, "at step 9"),
    )
    assert progress.done == 250
    advance(progress, 50, 1)
    assert feed(progress, RunEnded(runs[2], "done", looked(1.0), 100)).done == 300


def test_a_run_that_fails_midway_counts_once(runs):
    progress = feed(Progress([row(run) for run in runs]), PackStarted(runs, 0))
    advance(progress, 30, 3)
    feed(progress, *(RunEnded(run, "failed", None, 0, "error") for run in runs))
    assert (progress.done, progress.ended) == (300, 3)


def test_a_run_that_fails_before_it_starts_counts_in_full(runs):
    progress = feed(Progress([row(run) for run in runs]), PackStarted(runs[:1], 0))
    advance(progress, 100, 1)
    feed(
        progress,
        RunEnded(runs[0], "done", looked(1.0), 100),
        RunEnded(runs[1], "failed", None, 0, "error"),
    )
    assert progress.done == 200


def test_a_pack_that_did_not_fit_starts_again(runs):
    progress = feed(Progress([row(run) for run in runs]), PackStarted(runs, 0))
    advance(progress, 40, 3)
    feed(
        progress,
        GivenUp(),
        Remark("out of memory with 3 runs: going on with 1"),
        GivenUp(7),
    )
    assert progress.done == 0
    feed(progress, PackStarted(runs[:1], 0))
    advance(progress, 100, 1)
    assert feed(progress, RunEnded(runs[0], "done", looked(1.0), 100)).done == 100


def test_packs_side_by_side_count_apart(runs):
    progress = feed(Progress([row(run) for run in runs]), PackStarted(runs[:2], 0, pack=4))
    feed(progress, *itertools.repeat(Advanced(2, pack=4), 40), PackStarted(runs[2:], 0, pack=5))
    feed(progress, *itertools.repeat(Advanced(1, pack=5), 10))
    assert progress.done == 90
    feed(
        progress,
        RunsEvaluated({runs[2].run_id: looked(0.5)}),
        RunEnded(runs[0], "done", looked(1.0), 40, "solved early"),
    )
    assert progress.done == 90 + 60
    feed(progress, GivenUp(4))
    assert progress.done == 100 + 10
    feed(
        progress,
        *itertools.repeat(Advanced(1, pack=5), 90),
        RunEnded(runs[2], "done", looked(1.0), 100),
    )
    assert (progress.done, progress.ended) == (200, 2)


def test_runs_that_another_process_planned_since_count_on_both_sides(runs, make_run):
    progress = feed(Progress([row(run) for run in runs]), PackStarted(runs, 0))
    advance(progress, 100, 3)
    feed(progress, *(RunEnded(run, "done", looked(0.9), 100) for run in runs))
    late = make_run({"model.mixer": {"name": "mamba"}, "train.lr": 1.0, "train.steps": 40})
    feed(progress, PackStarted((late,), 0, pack=1))
    assert (progress.ended, progress.runs) == (3, 4)
    assert (progress.done, progress.total) == (300, 340)
    ended = RunEnded(late, "failed", None, 0, "error")
    assert progress.line(feed(progress, ended) and ended).startswith("[4/4] failed mamba")
    assert (progress.done, progress.total) == (340, 340)


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(view.time, "monotonic", lambda: now[0])
    return now


def work(
    progress: Progress, clock: list[float], steps: int, members: int, seconds: float
) -> Progress:
    for _ in range(steps):
        clock[0] += seconds / steps
        progress.feed(Advanced(members))
    return progress


def test_what_was_done_before_counts_but_not_as_speed(runs, clock):
    progress = Progress([row(runs[0], "done", 0.5), row(runs[1]), row(runs[2])])
    assert (progress.ended, progress.done) == (1, 100)
    clock[0] += 1000  # planning
    feed(progress, PackStarted(runs[1:], 60))
    assert progress.done == 220
    work(progress, clock, 20, 2, seconds=10)
    assert progress.remaining_s == pytest.approx(10.0)  # 40 steps in 10 s, 40 to go


def test_every_shape_counts_at_its_own_speed(make_run, clock):
    fast, slow, unseen = (
        make_run({"model.mixer": name, "train.steps": 100})
        for name in ("attention", "mamba", "hyena")
    )
    weights = {fast.shape_id: 10, slow.shape_id: 30, unseen.shape_id: 40}
    rows = [row(run) for run in (fast, slow, unseen)]
    progress = feed(Progress(rows, lambda run: weights[run.shape_id]), PackStarted((fast,), 0))
    work(progress, clock, 100, 1, seconds=10)
    feed(progress, RunEnded(fast, "done", looked(1.0), 100))
    assert progress.remaining_s == pytest.approx(10 * 3 + 10 * 4)  # by operations
    feed(progress, PackStarted((slow,), 0))
    work(progress, clock, 50, 1, seconds=45)
    assert progress.remaining_s == pytest.approx(45 + 100 * 40 * (10 + 45) / (100 * 10 + 50 * 30))
    without = feed(Progress(rows), PackStarted((fast,), 0))
    assert work(without, clock, 100, 1, seconds=10).remaining_s == pytest.approx(20)


def test_with_every_mixer_timed_before_the_time_left_does_not_jump(make_run, clock):
    """The slow one comes last, and by operations it would be as fast as the first."""
    fast, slow = (
        make_run({"model.mixer": name, "train.steps": 100}) for name in ("attention", "mamba")
    )
    rows = [row(run) for run in (fast, slow)]
    progress = Progress(rows, lambda run: 1, step_s={fast.shape_id: 0.1, slow.shape_id: 0.5})
    assert progress.remaining_s == pytest.approx(60)
    feed(progress, PackStarted((fast,), 0))
    work(progress, clock, 50, 1, seconds=10)  # evaluations, or a busy machine: twice as slow
    assert progress.remaining_s == pytest.approx(2 * (5 + 50))
    work(progress, clock, 50, 1, seconds=10)
    feed(progress, RunEnded(fast, "done", looked(0.5), 100), PackStarted((slow,), 0))
    assert progress.remaining_s == pytest.approx(100)
    assert work(progress, clock, 50, 1, seconds=50).remaining_s == pytest.approx(50)


def test_what_has_not_begun_is_expected_to_end_as_early_as_what_has(runs, clock):
    progress = feed(Progress([row(run) for run in runs]), PackStarted(runs[:2], 0))
    work(progress, clock, 50, 2, seconds=100)
    assert progress.remaining_s == pytest.approx(100 + 100)  # nothing has ended: all in full
    feed(progress, RunEnded(runs[0], "done", looked(1.0), 50, "solved early"))
    assert progress.remaining_s == pytest.approx(50 + 75)  # one made half its steps, one goes on
    feed(progress, RunEnded(runs[1], "failed", None, 50, "error"))
    assert progress.remaining_s == pytest.approx(75)  # a failure says nothing about the others
    assert progress.done == 200


def test_what_ended_before_tells_how_early_runs_end(runs, clock):
    ended = replace(row(runs[0], "done", 1.0), steps=20)
    progress = Progress([ended, row(runs[1]), row(runs[2])], step_s={runs[1].shape_id: 0.5})
    assert progress.remaining_s == pytest.approx(2 * 20 * 0.5)


# ---- runs that other processes train ----


def test_what_other_processes_do_counts_and_is_told(make_run):
    runs = [make_run({"train.lr": lr, "train.steps": 100}) for lr in (1e-3, 1e-2, 1e-1, 1.0)]
    rows = [row(run) for run in runs]
    progress, watcher = Progress(rows, processes=2), RowWatcher(rows)

    def lines(rows: list[RunRow]) -> list[str]:
        found = []
        for event in watcher.changes(rows):
            progress.feed(event)
            found.append(progress.line(event))
        return [line for line in found if line]

    assert lines(rows) == []
    now = [
        replace(row(runs[0], "done", 0.5), steps=100, wall_s=20.0, exact=0.25),
        replace(row(runs[1], "running", 0.125), steps=40),
        replace(row(runs[2], "diverged"), steps=60, diverged_step=55, wall_s=12.0),
        row(runs[3]),
    ]
    # A step took .2 s, and there are two processes. Of the three runs that have begun one made 60
    # steps of 100, so that the fourth is expected to make 260 / 3.
    assert lines(now) == [
        "[1/4] done attention width=16 lr=1e-3 seed=42 accuracy=0.500 steps=100, 16 s left",
        "[2/4] diverged attention width=16 lr=1e-1 seed=42 steps=60 (at step 55), 15 s left",
    ]
    assert (progress.done, progress.ended) == (240, 2)
    assert lines(now) == []
    failed = replace(row(runs[3], "failed"), failure="oom: too large")
    assert lines([*now[:3], failed]) == [
        "[3/4] failed attention width=16 lr=1e0 seed=42 (oom: too large), 6 s left"
    ]
    assert "0.125" in rendered(progress)


def test_a_run_that_another_process_starts_again_is_to_do_again(runs):
    rows = [row(run) for run in runs]
    progress, watcher = Progress(rows), RowWatcher(rows)
    for steps, done in ((40, 40), (0, 0), (60, 60)):
        running = replace(row(runs[0], "running"), steps=steps)
        feed(progress, *watcher.changes([running, *rows[1:]]))
        assert progress.done == done


def test_nothing_is_foretold_before_a_step_is_made(runs):
    assert Progress([row(run) for run in runs]).remaining_s is None


def test_what_is_left_is_not_reckoned_for_every_line(runs, monkeypatch):
    """Each look takes two seconds here, so the next one is due after a hundred."""
    now, looks = [1000.0], []
    monkeypatch.setattr(view, "FORETELLING_SHARE", 0.02)
    monkeypatch.setattr(view.time, "monotonic", lambda: now[0])

    def reckon(self):
        looks.append(1)
        now[0] += 2.0
        return 500.0

    progress = feed(Progress([row(run) for run in runs]), PackStarted(runs, 0))
    monkeypatch.setattr(Progress, "remaining_s", property(reckon))
    ended = RunEnded(runs[0], "done", looked(0.5), 100)
    assert progress.line(ended).endswith("8 min 20 s left")
    now[0] += 58.0
    assert progress.line(ended).endswith("7 min 20 s left")
    assert len(looks) == 1
    now[0] += 50.0
    assert progress.line(ended).endswith("8 min 20 s left")
    assert len(looks) == 2


def test_packs_that_have_ended_are_forgotten(runs):
    progress = Progress([row(run) for run in runs])
    for number, run in enumerate(runs):
        feed(progress, PackStarted((run,), 0, pack=number), Advanced(1, pack=number))
        feed(progress, RunEnded(run, "done", looked(0.5), 1))
    assert progress._packs == {}
    assert progress.done == 300


# ---- in a log ----


def test_a_log_has_one_line_per_run_and_one_per_remark(runs):
    progress = feed(Progress([row(run) for run in runs]), PackStarted(runs, 0))
    assert progress.line(PackStarted(runs, 0)) is None
    assert progress.line(Advanced(3)) is None
    assert progress.line(RunsEvaluated({})) is None
    assert progress.line(Remark("a checkpoint was damaged")) == "a checkpoint was damaged"
    ended = RunEnded(runs[1], "diverged", None, 50, "at step 9")
    assert (
        feed(progress, ended).line(ended)
        == "[1/3] diverged attention width=16 lr=1e-2 seed=42 steps=50 (at step 9)"
    )
    ended = RunEnded(runs[2], "done", looked(0.9876), 100)
    assert (
        feed(progress, ended).line(ended)
        == "[2/3] done attention width=16 lr=1e-1 seed=42 accuracy=0.988 steps=100"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (4.4, ", 4 s left"),
        (61, ", 1 min 1 s left"),
        (3599.6, ", 1 h 0 min left"),
        (7300, ", 2 h 1 min left"),
    ],
)
def test_the_time_left_in_words(seconds, text, monkeypatch):
    progress = Progress([])
    monkeypatch.setattr(progress, "_foretell", lambda: [seconds, seconds])
    assert progress._left() == text
    progress.feed(SearchRound("sweep", "1 of 2 windows known"))
    assert progress._left() == text.replace(", ", ", at most ")  # it needs less than all


def test_two_variants_of_a_mixer_are_told_apart_in_lines_and_scores(make_run):
    variants = [
        make_run({"model.mixer": {"name": "mamba", "init": init}})
        for init in ("official", "zoology")
    ]
    progress = Progress([row(run) for run in variants])
    feed(progress, PackStarted(tuple(variants), 0))
    feed(progress, RunsEvaluated({run.run_id: looked(0.5) for run in variants}))
    event = RunEnded(variants[1], "done", looked(0.5), 100)
    assert "done mamba, init zoology width=" in (feed(progress, event).line(event) or "")
    text = rendered(progress)
    names = [line.split("  ")[0].strip() for line in text.splitlines()[2:]]
    assert names == ["mamba", "mamba, init zoology"]


# ---- on a terminal ----


def test_the_live_view_shows_the_bar_and_the_best_scores(runs):
    progress = feed(
        Progress([row(runs[0], "done", 0.5), row(runs[1]), row(runs[2])]), PackStarted(runs[1:], 0)
    )
    advance(progress, 50, 2)
    feed(progress, RunsEvaluated({runs[1].run_id: looked(0.999), runs[2].run_id: looked(0.125)}))
    feed(progress, RunsEvaluated({runs[1].run_id: looked(0.25), runs[2].run_id: looked(0.375)}))
    lines = rendered(progress).splitlines()
    assert lines[0].startswith("1 of 3 runs")
    assert " 67%" in lines[0]
    assert "left" in lines[0]
    assert lines[1].split() == ["best", "score", "so", "far", "1e-3", "1e-2", "1e-1"]
    assert lines[2].split() == ["attention", "0.500", "0.999", "0.375"]


def test_the_live_view_fits_a_narrow_terminal_and_an_empty_sweep(runs):
    assert all(
        len(line) <= 40
        for line in rendered(Progress([row(run) for run in runs]), width=40).splitlines()
    )
    assert "0 of 0 runs" in rendered(Progress([]))


def test_only_the_largest_rates_have_room(make_run):
    runs = tuple(make_run({"train.lr": 10.0**-i}) for i in range(2, 18))
    progress = feed(Progress([row(run) for run in runs]), PackStarted(runs, 0))
    feed(progress, RunsEvaluated({run.run_id: looked(0.5) for run in runs}))
    assert rendered(progress, width=200).splitlines()[1].split()[4:] == [
        f"1e-{i}" for i in range(13, 1, -1)
    ]
