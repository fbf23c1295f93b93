"""Early decisions on constructed curves:
who is hopeless, who is spared and by what, and that only the past counts.
"""

import pytest

from recollect.rows import Evaluation
from recollect.spec.run import RunSpec
from recollect.training import schedule
from recollect.training.early import EVALUATIONS, EarlyDecisions, is_hopeless, rates_behind
from recollect.training.schedule import rates

FLAT, POOR = [1.4] * 20, [0.25] * 20


@pytest.fixture
def run(make_run) -> RunSpec:
    return make_run({"train.steps": 200, "train.evaluations": 20, "train.stop_hopeless": 0.3})


def curve(run: RunSpec, losses: list[float], scores: list[float]) -> list[Evaluation]:
    steps = run.train.evaluation_steps()
    return [
        Evaluation(step, loss, 9.9, score, 0.0)
        for step, loss, score in zip(steps, losses, scores, strict=False)
        if step
    ]


def stop(run: RunSpec, losses: list[float], scores: list[float]) -> int | None:
    """The step at which the run ends as hopeless."""
    decisions = EarlyDecisions()
    for point in curve(run, losses, scores):
        if decisions.decide(run, point) == "hopeless":
            return point.step
    return None


def test_the_share_behind_follows_the_schedule(make_run):
    constant = make_run(
        {"train.steps": 8, "train.evaluations": 4, "train.warmup": 0.0, "train.decay": "constant"}
    )
    assert rates_behind(constant) == pytest.approx({2: 0.25, 4: 0.5, 6: 0.75, 8: 1.0})
    linear = make_run(
        {"train.steps": 4, "train.evaluations": 4, "train.warmup": 0.0, "train.decay": "linear"}
    )
    assert rates_behind(linear) == pytest.approx({1: 0.4, 2: 0.7, 3: 0.9, 4: 1.0})


@pytest.mark.parametrize(("share", "step"), [(0.02, 160), (0.1, 130), (0.3, 90), (0.99, 40)])
def test_a_loss_that_stands_still_ends_with_the_rate(make_run, share, step):
    run = make_run({"train.steps": 200, "train.evaluations": 20, "train.stop_hopeless": share})
    assert stop(run, FLAT, POOR) == step
    behind = rates_behind(run)
    sums = rates(run).cumsum()
    assert behind == {step: sums[step - 1] / sums[-1] for step in run.train.evaluation_steps()}
    assert 1 - behind[step] <= share
    assert step == 10 * (EVALUATIONS + 1) or 1 - behind[step - 10] > share


def test_who_did_not_ask_goes_on(make_run):
    assert stop(make_run({"train.steps": 200, "train.evaluations": 20}), FLAT, POOR) is None


def test_a_loss_that_rises_is_no_hope(run):
    assert stop(run, [1.4 + 0.01 * i for i in range(20)], POOR) == 90


def test_a_falling_loss_saves_until_there_is_too_little_rate_for_it(run):
    falling = [2.0 - 0.05 * i for i in range(20)]
    assert 90 < (stop(run, falling, POOR) or 0) < 200


def test_the_score_can_only_save(run):
    assert stop(run, FLAT, [0.49] * 20) == 90
    assert stop(run, FLAT, [0.51] * 20) is None
    rising = [min(0.03 * i, 0.4) for i in range(20)]
    assert (stop(run, FLAT, rising) or 0) > 90
    falling_loss = [2.0 * 0.8**i for i in range(20)]
    assert stop(run, falling_loss, POOR) == stop(run, falling_loss, [0.0] * 20)


@pytest.mark.parametrize(
    ("scores", "hopeless"),
    [
        ((0.41, 0.45, 0.45, 0.45), False),
        ((0.45, 0.41, 0.45, 0.45), False),  # what moves counts, not where it ends
        ((0.45, 0.45, 0.45, 0.41), False),  # the best counts, not the last
        ((0.44, 0.41, 0.44, 0.44), True),
    ],
)
def test_the_score_is_carried_on_from_its_best_by_its_whole_range(make_run, scores, hopeless):
    """At a constant rate, 95 % behind: four times .05 / .15 of the range of .04 is .053."""
    length = {"train.steps": 20, "train.evaluations": 20, "train.stop_hopeless": 0.1}
    run = make_run({**length, "train.warmup": 0.0, "train.decay": "constant"})
    points = [Evaluation(16 + i, 1.0, 1.0, score, 0.0) for i, score in enumerate(scores)]
    assert is_hopeless(run, points, rates_behind(run)) == hopeless


@pytest.mark.parametrize(("share", "hopeless"), [(0.5, True), (0.4999, False)])
def test_the_rule_begins_with_just_the_share_that_is_left(make_run, share, hopeless):
    length = {"train.steps": 16, "train.evaluations": 16, "train.stop_hopeless": share}
    run = make_run({**length, "train.lr": 0.5, "train.warmup": 0.0, "train.decay": "constant"})
    behind = rates_behind(run)
    assert behind[8] == 0.5
    points = [Evaluation(step, 1.0, 1.0, 0.1, 0.0) for step in range(5, 9)]
    assert is_hopeless(run, points, behind) == hopeless


@pytest.mark.parametrize("evaluations", [1, 3, 20, 40])
def test_the_share_behind_is_the_same_block_by_block(make_run, monkeypatch, evaluations):
    run = make_run({"train.steps": 40, "train.evaluations": evaluations})
    sums = rates(run).cumsum()
    expected = {step: sums[step - 1] / sums[-1] for step in run.train.evaluation_steps()}
    monkeypatch.setattr(schedule, "BLOCK", 8)
    assert rates_behind(run) == pytest.approx(expected, rel=1e-12)


def test_a_late_jump_is_seen_before_it_is_judged(run):
    """The plateau ends just before the decision: the last looks' fall keeps the run."""
    losses = [1.4] * 7 + [1.2, 0.9, 0.5, 0.2, 0.1] + [0.05] * 8
    scores = [0.25] * 7 + [0.4, 0.6, 0.8, 0.9, 0.95] + [0.97] * 8
    assert stop(run, losses, scores) is None


def test_what_is_not_a_number_decides_nothing(run):
    assert stop(run, [float("nan")] * 20, POOR) is None


def test_copying_is_judged_by_whole_rows(make_run):
    run = make_run(
        {
            "train.steps": 200,
            "train.evaluations": 20,
            "train.stop_hopeless": 0.3,
            "task": {"name": "copying", "train_rows": 64, "test_rows": 8},
            "train.batch": 8,
        }
    )
    points = [Evaluation(step, 1.0, 1.0, 0.1, 0.95) for step in run.train.evaluation_steps()]
    assert not is_hopeless(
        run, points[:12], rates_behind(run)
    )  # .95 of the rows, whatever the labels say
    assert is_hopeless(
        run, [Evaluation(p.step, 1.0, 1.0, 0.95, 0.1) for p in points[:12]], rates_behind(run)
    )


@pytest.mark.parametrize("interrupted", range(1, 14))
def test_an_interruption_changes_no_decision(run, interrupted):
    points = curve(run, FLAT, POOR)
    whole = EarlyDecisions()
    expected = [whole.decide(run, point) for point in points]
    resumed = EarlyDecisions()
    resumed.remember(run, points[:interrupted])
    assert [resumed.decide(run, point) for point in points[interrupted:]] == expected[interrupted:]
