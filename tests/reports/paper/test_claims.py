"""Every claim on rows that pass, that fail, that are noisy and that are too few."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from claims_made import (
    BY_NAME,
    CONTRARY,
    CONTRARY_CURVES,
    CONTRARY_DECAY,
    NAMES,
    NARROW,
    ONE_RATE,
    WIDE,
    changed,
    contrary_verdict,
    made_curves,
    made_rows,
    mixer,
    narrow,
    never,
    noisy,
    recipe_label,
    reduced,
    study_score,
    verdict_of,
    wide,
    within,
)

from recollect.reports.paper.claims import CLAIMS, thresholds
from recollect.reports.paper.claims.judge import judge
from recollect.spec.run import RunSpec

TWO_SEEDS = {"C5"}  # cannot be said of a single seed at any scale
SOME_OPEN = {"C3", "C4"}  # cells without a window
# Scores of .93 and .995 are the same with a noise of .05.
HIDDEN_BY_NOISE = {"C26"}


def test_all_claims_are_there_and_each_has_a_contrary():
    assert NAMES == [f"C{number}" for number in range(1, len(CLAIMS) + 1)] == list(CONTRARY)
    assert set(CONTRARY_CURVES) | set(CONTRARY_DECAY) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_rows_as_the_study_describes_them_reproduce_it(name):
    """The rows are those that the claim says to run:
    so its commands exist, can be read, and suffice.
    """
    verdict = verdict_of(BY_NAME[name], made_rows(BY_NAME[name], study_score))
    assert (verdict.outcome, verdict.wants) == ("reproduced", ()), verdict.numbers
    assert verdict.tally.failing == 0 or BY_NAME[name].coverage.one
    assert re.search(r"\d", verdict.numbers)
    assert verdict.checks
    assert name in SOME_OPEN or all(part.holds is not None for part in verdict.checks)


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_contradict_it_do_not(name):
    verdict = contrary_verdict(BY_NAME[name], made_rows(BY_NAME[name], CONTRARY[name]))
    assert (verdict.outcome, verdict.wants) == ("contradicted", ()), verdict.numbers
    assert verdict.tally.fails
    assert any(part.holds is False for part in verdict.checks)


@pytest.mark.parametrize("name", NAMES)
def test_noise_of_seeds_turns_no_verdict(name):
    """No claim is unpassable, and none is passed by noise."""
    claim, draw = BY_NAME[name], 1
    true = verdict_of(claim, made_rows(claim, noisy(study_score, draw)))
    if name in HIDDEN_BY_NOISE:
        assert true.outcome == "not enough data", true.numbers
        return
    assert true.outcome == "reproduced", true.numbers
    false = contrary_verdict(claim, made_rows(claim, noisy(CONTRARY[name], draw)))
    assert false.outcome == "contradicted", false.numbers


@pytest.mark.parametrize("name", NAMES)
def test_without_rows_it_says_what_to_run(name):
    verdict = verdict_of(BY_NAME[name], [])
    assert verdict.outcome == "not enough data"
    assert verdict.reduced == ""
    if verdict.numbers != "this recipe says nothing about the task":
        assert f"any run of this recipe in its setting, {verdict.claim.setting}" in verdict.numbers
        assert verdict.wants or name == "C32"
    assert all(
        line.startswith("recollect run paper:") for line in verdict.claim.what_to_run.splitlines()
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_smaller_scale_decides_nothing_but_is_told(name):
    claim = BY_NAME[name]
    agreeing = verdict_of(claim, reduced(made_rows(claim, study_score), name in TWO_SEEDS))
    contrary = contrary_verdict(claim, reduced(made_rows(claim, CONTRARY[name]), name in TWO_SEEDS))
    assert (agreeing.outcome, contrary.outcome) == ("not enough data", "not enough data")
    assert agreeing.reduced.startswith("holds ("), agreeing.numbers
    assert contrary.reduced.startswith("does not hold (")
    scale = "alphabet 13" if claim.task == "copying" else "vocabulary 4096"
    assert scale in agreeing.reduced
    assert f"At reduced scale: {agreeing.reduced}." in agreeing.remark


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_decides_nothing(name):
    rows = [row for row in made_rows(BY_NAME[name], study_score) if row.spec["seed"] == 42]
    verdict = verdict_of(BY_NAME[name], rows)
    assert verdict.outcome == "not enough data"
    assert verdict.wants or "missing: " in verdict.numbers
    assert name in TWO_SEEDS or verdict.reduced.startswith("holds (the study's scale, but fewer")


@pytest.mark.parametrize("name", NAMES)
def test_runs_without_a_result_decide_nothing(name):
    if name == "C32":  # about initialisation
        return
    rows = [
        replace(row, status="todo", accuracy=None, exact=None, train_score=None)
        for row in made_rows(BY_NAME[name], study_score)
        if row.spec["seed"] == 42
    ]
    verdict = verdict_of(BY_NAME[name], rows)
    assert (verdict.outcome, verdict.reduced) == ("not enough data", "")


@pytest.mark.parametrize("claim", CLAIMS, ids=NAMES)
def test_a_rule_names_its_thresholds_and_no_others(claim):
    known = {
        name: value
        for name, value in vars(thresholds).items()
        if isinstance(value, thresholds.Threshold)
    }
    words = re.findall(r"\b[A-Z_]{3,}\b", claim.rule.__doc__)
    named = {known[word].name for word in words if word in known}
    implied = {"window"} if "window" in claim.rule.__doc__ else set()
    assert named <= {threshold.name for threshold in claim.thresholds}
    assert {threshold.name for threshold in claim.thresholds} - named <= implied | {
        "least evaluations",
        "one pair, most",
        "solved",
    }
    assert "window" not in claim.rule.__doc__ or claim.has_window or claim.task == "copying"
    assert not re.search(r"\b[A-Z]+_[A-Z]+\b", claim.rule_text)  # all were replaced by their values
    assert all(threshold.why for threshold in claim.thresholds)


def is_role(name: str, depth: int, **options: Any) -> Callable[[RunSpec], bool]:
    return lambda run: (
        (mixer(run), run.model.depth) == (name, depth)
        and all(getattr(run.model.mixer, key) == wanted for key, wanted in options.items())
    )


def middling(run: RunSpec) -> float:
    """Solves it in a narrow window and is half good elsewhere."""
    return within(run, NARROW, 0.995, 0.6)


def split_seeds(run: RunSpec) -> float:
    """Half good at one of Zoology's rates; at each of three others all seeds but one are good,
    which misleads who asks them.
    """
    misled = {3e-3: 42, 5e-3: 123, 3e-2: 777}
    if run.train.lr in misled:
        return 0.02 if misled[run.train.lr] == run.seed else 0.99
    return 0.5 if run.train.lr == 2.154e-3 else 0.02


def deep_mamba(run: RunSpec) -> float:
    """Mamba that depth lifts as much as attention, and width lifts too."""
    if run.model.depth > 1:
        return narrow(run)
    return within(run, NARROW, 0.001 if run.model.width < 2048 else 0.2, 0.001)


# Rules have several parts; here each of the others is wrong alone.
PARTS: list[tuple[str, Callable[[RunSpec], bool], Callable[[RunSpec], float]]] = [
    ("C3", is_role("hyena", 2), wide),
    ("C3", is_role("mamba", 2), middling),
    (
        "C5",
        lambda run: mixer(run) == "h3" and run.model.width == 64 and run.task.length == 64,
        split_seeds,
    ),
    ("C9", lambda run: run.model.width == 2048 and run.task.length == 64, never(0.4)),
    ("C10", lambda run: run.model.width == 2048, never(0.001)),
    (
        "C11",
        lambda run: mixer(run) == "hyena" and run.task.length == 512 and run.model.width == 128,
        never(0.2),
    ),
    ("C11", is_role("rwkv4", 1), never(0.3)),
    ("C13", lambda run: run.model.width > 256, never(0.5)),
    ("C14", is_role("attention", 2), never(0.02)),
    ("C14", lambda run: is_role("attention", 1)(run) and run.model.width == 2048, never(0.3)),
    ("C14", is_role("hyena", 1), never(0.3)),
    ("C15", is_role("mamba", 2), lambda run: within(run, (1e-4, 1e-2), 0.95, 0.02)),
    ("C15", is_role("attention", 2), never(0.93)),
    ("C16", lambda run: mixer(run) == "attention", never(0.5)),
    (
        "C16",
        lambda run: (run.model.depth, run.model.width) == (12, 1024) and mixer(run) == "mamba",
        narrow,
    ),
    ("C16", lambda run: run.model.width == 1408, never(0.5)),
    ("C20", is_role("attention", 1, conv="none"), wide),
    ("C20", is_role("attention", 1, conv="q"), wide),
    ("C20", is_role("attention", 1, conv="k"), never(0.3)),
    ("C20", is_role("attention", 1, conv="qkv"), never(0.3)),
    ("C20", is_role("mamba", 1, kernel=4, gate=True), never(0.3)),
    ("C20", is_role("mamba", 1, gate=False), never(0.3)),
    ("C20", is_role("s6", 1, kernel=4), never(0.3)),
    ("C23", lambda run: mixer(run) == "rwkv4" and run.model.positions == "relative", narrow),
    ("C24", is_role("mamba2", 1), lambda run: within(run, (1e-4, 5e-3), 0.995, 0.02)),
    ("C24", is_role("mamba2", 1), lambda run: within(run, (4e-4, 5e-3), 0.995, 0.02)),
    ("C24", is_role("mamba", 1), lambda run: within(run, (1e-3, 1e-2), 0.995, 0.02)),
    ("C24", is_role("attention", 2), lambda run: within(run, (1e-5, 1e-1), 0.995, 0.02)),
    ("C25", is_role("attention", 2), never(0.9)),
    ("C28", is_role("based_hybrid", 2), never(0.9)),
    ("C28", lambda run: is_role("based", 1)(run) and run.model.width == 512, never(0.5)),
    ("C30", is_role("h3", 1), never(0.5)),
    ("C31", is_role("mamba2", 1), lambda run: within(run, ONE_RATE, 0.995, 0.02)),
    ("C31", is_role("delta_net", 1), lambda run: within(run, ONE_RATE, 0.995, 0.02)),
    ("C3", is_role("mamba", 2), lambda run: within(run, (4e-4, 1e-2), 0.995, 0.02)),
    ("C14", lambda run: is_role("mamba", 2)(run) or is_role("mamba", 1)(run), deep_mamba),
    ("C14", lambda run: is_role("attention", 1)(run), lambda run: within(run, WIDE, 0.95, 0.02)),
]


@pytest.mark.parametrize(
    ("name", "condition", "score"), PARTS, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(PARTS)]
)
def test_every_part_of_a_rule_counts(name, condition, score):
    verdict = verdict_of(BY_NAME[name], made_rows(BY_NAME[name], changed(condition, score)))
    assert verdict.outcome == "contradicted", verdict.numbers


def test_a_fall_of_the_loss_without_a_gain_is_a_bump_of_mamba_too():
    claim = BY_NAME["C18"]
    rows = made_rows(claim, study_score)
    curves = made_curves(rows)
    flat = {row.run_id for row in rows if row.spec["model"]["mixer"]["name"] == "mamba"}
    curves |= {
        run: [replace(point, accuracy=0.96) for point in curve]
        for run, curve in curves.items()
        if run in flat
    }
    (verdict,) = judge([claim], rows, curves, recipe_label(rows), resamples=0)
    assert verdict.outcome == "contradicted", verdict.numbers


def test_some_of_zoologys_rates_decide_where_the_others_could_not_change_it():
    """One of the four that solves the task shows that the grid does not miss it (C4), and that
    attention needs no other (C25); one that does not solve it shows nothing.
    """
    for name in ("C4", "C25"):
        rows = made_rows(BY_NAME[name], CONTRARY["C4"] if name == "C4" else study_score)
        one = [row for row in rows if row.spec["train"]["lr"] == 2.154e-3]
        verdict = verdict_of(BY_NAME[name], one)
        assert verdict.outcome == ("contradicted" if name == "C4" else "reproduced")
        assert "at least " in verdict.numbers
        low = [row for row in rows if row.spec["train"]["lr"] == 1e-4 and row.score < 0.5]
        assert not low or verdict_of(BY_NAME[name], low).outcome == "not enough data"
