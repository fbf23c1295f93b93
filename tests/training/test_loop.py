"""The loop: what it yields and when, which members end and why, and that nothing waits for the
device between two looks.
"""

import itertools
import math
from collections.abc import Sequence

import pytest
import torch

from recollect.rows import Evaluation
from recollect.spec.run import RunSpec
from recollect.training import loop as loop
from recollect.training.early import EarlyDecisions
from recollect.training.loop import BeforeStep, End, Evaluated, train_population
from recollect.training.population import Population

EXPLODING = {
    "train.lr": 1e3,
    "train.weight_decay": 1e3,
    "train.decay": "constant",
    "train.warmup": 0.0,
}


class Scripted:
    """Stands in for a population: scores and divergences as told,
    and a record of what was asked of it.
    """

    def __init__(
        self, scores: dict[RunSpec, Sequence[float]], diverges: dict[RunSpec, int] | None = None
    ):
        self.members, self.scores, self.diverges = list(scores), scores, diverges or {}
        self.step, self.looks, self.asked = 0, 0, []

    def next_rows(self) -> tuple[str, int]:
        return "train", self.step

    def train_step(self, batch: tuple[str, int]) -> None:
        self.asked.append(batch)
        self.step += 1

    def evaluate(self) -> list[Evaluation]:
        self.looks += 1
        return [
            Evaluation(self.step, 1.0, 1.0, self.scores[run][self.looks - 1], 0.0)
            for run in self.members
        ]

    def diverged(self) -> list[int]:
        return [
            at if 0 < (at := self.diverges.get(run, 0)) <= self.step else 0 for run in self.members
        ]

    def compact(self, run_ids: Sequence[str]) -> None:
        self.asked.append(("compact", len(run_ids)))
        self.members = [run for run in self.members if run.run_id in run_ids]


def evaluations_of(population: object) -> list[Evaluated]:
    return [
        event
        for event in train_population(population, EarlyDecisions())
        if isinstance(event, Evaluated)
    ]


# ---- the order of events ----


def test_every_step_is_announced_and_every_look_follows_its_step(make_run):
    run = make_run({"train.steps": 7, "train.evaluations": 3})
    population = Scripted({run: [0.1] * 3})
    events = [
        (type(event).__name__, event.step)
        for event in train_population(population, EarlyDecisions())
    ]
    assert events == [
        ("BeforeStep", 0),
        ("BeforeStep", 1),
        ("BeforeStep", 2),
        ("Evaluated", 3),
        ("BeforeStep", 3),
        ("BeforeStep", 4),
        ("Evaluated", 5),
        ("BeforeStep", 5),
        ("BeforeStep", 6),
        ("Evaluated", 7),
    ]
    assert population.asked == [("train", step) for step in range(7)]


def test_looks_are_at_the_evaluation_steps_and_the_last_one_ends(make_run, make_population):
    runs = [
        make_run({"train.steps": 10, "train.evaluations": 4}),
        make_run({"train.steps": 10, "train.evaluations": 4, "seed": 1}),
    ]
    found = evaluations_of(make_population(runs))
    assert [look.step for look in found] == runs[0].train.evaluation_steps() == [3, 5, 8, 10]
    assert all(set(look.evaluations) == {run.run_id for run in runs} for look in found)
    assert all(
        evaluation.step == look.step for look in found for evaluation in look.evaluations.values()
    )
    assert [look.ends for look in found[:-1]] == [()] * 3
    assert found[-1].ends == tuple(End(run, "done") for run in runs)


def test_a_population_that_stands_somewhere_goes_on_from_there(make_run):
    population = Scripted({make_run(): [0.1] * 3})
    population.step = 3
    assert [
        event.step
        for event in train_population(population, EarlyDecisions())
        if isinstance(event, BeforeStep)
    ] == [3, 4, 5]


# ---- solved ----


@pytest.mark.parametrize(
    ("scores", "solved_at"),
    [
        ([0.9, 0.9, 0.9], 4),
        ([0.9, 0.1, 0.9, 0.9], 8),
        ([0.95, 0.89, 0.95, 0.89], None),
        ([0.1, 0.1, 0.1, 0.9], None),
    ],
)
def test_solved_means_twice_in_a_row(make_run, scores, solved_at):
    run = make_run({"train.steps": 8, "train.evaluations": 4, "train.stop_solved": 0.9})
    last = evaluations_of(Scripted({run: scores}))[-1]
    assert last.ends == (
        End(
            run, "done", stopped_early="solved" if solved_at is not None and solved_at < 8 else None
        ),
    )
    assert last.step == (solved_at or 8)


@pytest.mark.parametrize(
    ("wanted", "scores", "solved_at"),
    [
        (1, [0.1, 0.9, 0.1], 4),
        (1, [0.99], 2),
        (3, [0.9, 0.9, 0.1, 0.9, 0.9, 0.9], 12),
        (6, [0.9] * 8, 12),
    ],
)
def test_solved_means_as_often_in_a_row_as_wanted(make_run, wanted, scores, solved_at):
    wish = {"train.stop_solved": 0.9, "train.solved_evaluations": wanted}
    run = make_run({"train.steps": 16, "train.evaluations": 8, **wish})
    last = evaluations_of(Scripted({run: scores}))[-1]
    assert (last.step, last.ends[0].stopped_early) == (solved_at, "solved")


def test_without_a_wish_nothing_stops_early(make_run):
    run = make_run()
    assert [look.step for look in evaluations_of(Scripted({run: [1.0] * 3}))] == [2, 4, 6]


def test_a_score_from_before_an_interruption_counts(make_run):
    run = make_run({"train.stop_solved": 0.9})
    decisions = EarlyDecisions()
    decisions.remember(run, [Evaluation(2, 1.0, 1.0, 0.95, 0.0)])
    assert decisions.decide(run, Evaluation(4, 1.0, 1.0, 0.9, 0.0)) == "solved"


def test_a_copying_task_is_judged_by_whole_rows(make_run):
    task = {"name": "copying", "train_rows": 64, "test_rows": 8}
    run = make_run({"task": task, "train.batch": 8, "train.stop_solved": 0.9})
    decisions = EarlyDecisions()
    looks = [
        Evaluation(step, 1.0, 1.0, 1.0, exact) for step, exact in ((1, 0.5), (2, 0.9), (3, 0.9))
    ]
    assert [decisions.decide(run, look) for look in looks] == [None, None, "solved"]


# ---- hopeless ----


def test_a_run_without_hope_ends_and_says_so(make_run):
    """Its loss stands at 1 and its score at .1: it ends with the first look that has no more than
    the allowed rate ahead.
    """
    length = {"train.steps": 40, "train.evaluations": 10}
    runs = [make_run({**length, "train.stop_hopeless": share}) for share in (0.0, 0.1, 0.5)]
    found = evaluations_of(Scripted({run: [0.1] * 10 for run in runs}))
    ends = {end.run: (look.step, end) for look in found for end in look.ends}
    assert ends[runs[0]] == (40, End(runs[0], "done"))
    assert ends[runs[1]] == (28, End(runs[1], "done", stopped_early="hopeless"))
    assert ends[runs[2]] == (16, End(runs[2], "done", stopped_early="hopeless"))


# ---- diverged ----


def test_a_diverged_run_ends_at_the_next_look_with_its_step(make_run):
    runs = [make_run(seed=seed) for seed in range(3)]
    found = evaluations_of(Scripted(dict.fromkeys(runs, [0.1] * 3), diverges={runs[1]: 3}))
    assert found[1].ends == (End(runs[1], "diverged", diverged_step=3),)
    assert runs[1].run_id not in found[1].evaluations
    assert found[2].ends == (End(runs[0], "done"), End(runs[2], "done"))


def test_a_loss_that_is_not_finite_before_any_update_is_a_failure_and_no_divergence(make_run):
    runs = [make_run(seed=seed) for seed in range(2)]
    found = evaluations_of(Scripted(dict.fromkeys(runs, [0.1] * 3), diverges={runs[1]: 1}))
    (end,) = found[0].ends
    assert (end.run, end.status, end.diverged_step) == (runs[1], "failed", None)
    assert end.failure == (
        "bug: the loss of the first step, before any update, is not finite; no learning rate has a "
        "part in it"
    )


def test_a_run_that_breaks_in_its_very_last_step_has_diverged(make_run, make_population):
    def runs(steps: int) -> list[RunSpec]:
        length = {"train.steps": steps, "train.evaluations": 1}
        return [
            make_run({**length, **EXPLODING}),
            make_run({**length, "train.decay": "constant", "seed": 1}),
        ]

    wild, tame = runs(12)
    (first_bad,) = [
        end.diverged_step
        for end in evaluations_of(make_population([wild, tame]))[-1].ends
        if end.run == wild
    ]
    wild, tame = runs(first_bad - 1)
    population: Population = make_population([wild, tame])
    (look,) = evaluations_of(population)
    assert population.diverged() == [0, 0]  # no training loss told
    assert look.ends == (End(wild, "diverged", diverged_step=first_bad - 1), End(tame, "done"))
    assert wild.run_id not in look.evaluations


def test_a_run_that_breaks_in_its_first_update_has_diverged(make_run):
    """Its loss before the update was finite, so its rate has a part in it: that is no failure."""

    class Breaking(Scripted):
        def evaluate(self) -> list[Evaluation]:
            return [Evaluation(self.step, 1.0, math.inf, 0.0, 0.0)]

    run = make_run({"train.steps": 2, "train.evaluations": 2})
    (look,) = evaluations_of(Breaking({run: []}))
    assert look.ends == (End(run, "diverged", diverged_step=1),)


# ---- compaction ----


@pytest.mark.parametrize(
    ("members", "left", "after"),
    [(5, 3, 4), (4, 3, 2)],  # one of five is not enough, one of four is
)
def test_dead_members_are_carried_until_a_quarter_is_dead(make_run, members, left, after):
    length = {"train.steps": 8, "train.evaluations": 4}
    runs = [make_run({"seed": seed, **length}) for seed in range(members)]
    population = Scripted(dict.fromkeys(runs, [0.1] * 4), diverges={runs[0]: 1, runs[1]: 3})
    evaluations_of(population)
    compacted = [entry for entry in population.asked if entry[0] == "compact"]
    assert compacted[0] == ("compact", left)
    assert population.asked.index(compacted[0]) == after


def test_compaction_changes_no_number(make_run, make_population, monkeypatch):
    length = {"train.steps": 16, "train.evaluations": 4}
    tame = [
        make_run({**length, "seed": 1, "train.decay": "constant"}),
        make_run({**length, "seed": 2, "train.lr": 0.01}),
    ]
    wild = [make_run({**length, **EXPLODING, "seed": seed}) for seed in (3, 4)]
    mixed = [wild[0], tame[0], wild[1], tame[1]]
    thinned, whole = make_population(mixed), make_population(mixed)
    with_compaction = evaluations_of(thinned)
    assert len(thinned.members) == 2
    monkeypatch.setattr(loop, "COMPACT_SHARE", 2.0)
    assert evaluations_of(whole) == with_compaction
    assert len(whole.members) == 4
    assert evaluations_of(make_population(tame))[-1].evaluations == with_compaction[-1].evaluations


# ---- interruption ----


@pytest.mark.parametrize("stop_at", [1, 3, 5])
def test_a_resumed_loop_yields_what_the_whole_one_would_have(make_run, make_population, stop_at):
    runs = [make_run(), make_run({"seed": 1, "train.lr": 0.01})]
    whole = list(train_population(make_population(runs), EarlyDecisions()))
    first = make_population(runs)
    before = list(
        itertools.takewhile(
            lambda event: not (isinstance(event, BeforeStep) and event.step == stop_at),
            train_population(first, EarlyDecisions()),
        )
    )
    second = make_population(runs)
    second.restore(first.state())
    assert before + list(train_population(second, EarlyDecisions())) == whole


# ---- waiting for the device ----


def test_nothing_waits_for_the_device_between_two_looks(make_run, make_population, monkeypatch):
    """Every way in which Python can ask for a value is closed; a step of training, its data
    included, must not need one.
    """
    runs = [make_run({"train.clip": 1.0}), make_run(seed=1)]
    population = make_population(runs)
    population.train_step(
        population.task.batch("train", 0)
    )  # data sets are drawn once, at the first step

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("asked for a value on the device")

    for name in (
        "item",
        "tolist",
        "cpu",
        "numpy",
        "nonzero",
        "__bool__",
        "__int__",
        "__float__",
        "__index__",
    ):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    for step in range(1, 6):  # over the border of an epoch
        population.train_step(population.task.batch("train", step))
    with pytest.raises(AssertionError, match="asked for a value"):
        population.evaluate()
