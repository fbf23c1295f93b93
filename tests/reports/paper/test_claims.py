"""Every claim on rows that pass, that fail and that are too few."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from claims_made import (
    BY_NAME,
    CONTRARY,
    CONTRARY_CURVES,
    NAMES,
    NARROW,
    changed,
    made_curves,
    made_rows,
    mixer,
    narrow,
    never,
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


def test_all_claims_are_there_and_each_has_a_contrary():
    assert NAMES == [f"C{number}" for number in range(1, 27)] == list(CONTRARY)


@pytest.mark.parametrize("name", NAMES)
def test_rows_as_the_study_describes_them_reproduce_it(name):
    """The rows are those that the claim says to run:
    so its commands exist, can be read, and suffice.
    """
    verdict = verdict_of(BY_NAME[name], made_rows(BY_NAME[name], study_score))
    assert (verdict.verdict, verdict.what_to_run) == ("reproduced", ""), verdict.numbers
    assert re.search(r"\d", verdict.numbers)
    assert verdict.checks
    assert all(
        part.holds is not None for part in verdict.checks if name not in ("C4", "C6", "C12", "C11")
    )


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_contradict_it_do_not(name):
    rows = made_rows(BY_NAME[name], CONTRARY[name])
    verdict = verdict_of(BY_NAME[name], rows, CONTRARY_CURVES.get(name, ("attention", "mamba")))
    assert (verdict.verdict, verdict.what_to_run) == ("not reproduced", ""), verdict.numbers
    assert any(part.holds is False for part in verdict.checks)


@pytest.mark.parametrize("name", NAMES)
def test_without_rows_it_says_what_to_run(name):
    verdict = verdict_of(BY_NAME[name], [])
    assert verdict.verdict == "not enough data"
    assert verdict.numbers == "missing: any run at the study's scale"
    assert all(line.startswith("recollect run paper:") for line in verdict.what_to_run.splitlines())
    assert verdict.reduced == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_smaller_scale_decides_nothing_but_is_told(name):
    claim = BY_NAME[name]
    curves = CONTRARY_CURVES.get(name, ("attention", "mamba"))
    agreeing = verdict_of(claim, reduced(made_rows(claim, study_score), name in TWO_SEEDS))
    contrary = verdict_of(
        claim, reduced(made_rows(claim, CONTRARY[name]), name in TWO_SEEDS), curves
    )
    assert (agreeing.verdict, contrary.verdict) == ("not enough data", "not enough data")
    assert agreeing.reduced.startswith("holds ("), agreeing.numbers
    assert contrary.reduced.startswith("does not hold (")
    scale = "alphabet 13" if claim.task == "copying" else "vocabulary 4096"
    assert scale in agreeing.reduced
    assert f"At reduced scale: {agreeing.reduced}." in agreeing.remark
    assert agreeing.what_to_run


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_decides_nothing(name):
    rows = [row for row in made_rows(BY_NAME[name], study_score) if row.spec["seed"] == 42]
    verdict = verdict_of(BY_NAME[name], rows)
    assert verdict.verdict == "not enough data"
    assert "missing: " in verdict.numbers
    assert name in TWO_SEEDS or verdict.reduced.startswith(
        "holds (the study's recipe, but fewer cells, seeds or rates"
    )


@pytest.mark.parametrize("name", NAMES)
def test_runs_without_a_result_decide_nothing(name):
    rows = [
        replace(row, status="todo", accuracy=None, exact=None)
        for row in made_rows(BY_NAME[name], study_score)
        if row.spec["seed"] == 42
    ]
    verdict = verdict_of(BY_NAME[name], rows)
    assert (verdict.verdict, verdict.reduced) == ("not enough data", "")


@pytest.mark.parametrize("claim", CLAIMS, ids=NAMES)
def test_a_rule_names_its_thresholds_and_no_others(claim):
    known = {
        name: value
        for name, value in vars(thresholds).items()
        if isinstance(value, thresholds.Threshold)
    }
    words = re.findall(r"\b[A-Z_]{3,}\b", claim.rule.__doc__)
    named = {known[word].name for word in words if word in known}
    implied = (
        {"window"} if any(word in claim.rule.__doc__ for word in ("window", "Wherever")) else set()
    )
    assert named <= {threshold.name for threshold in claim.thresholds}
    assert {threshold.name for threshold in claim.thresholds} - named <= implied | {
        "least evaluations",
        "one pair, most",
        "solved",
    }
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


# Rules have several parts; here each of the others is wrong alone.
PARTS: list[tuple[str, Callable[[RunSpec], bool], Callable[[RunSpec], float]]] = [
    ("C3", is_role("hyena", 2), wide),
    ("C3", is_role("mamba", 2), middling),
    (
        "C5",
        lambda run: mixer(run) == "h3" and run.model.width == 64 and run.task.length == 64,
        split_seeds,
    ),
    ("C9", lambda run: run.model.width == 2048, never(0.4)),
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
    ("C18", is_role("mamba", 1), lambda run: within(run, NARROW, 0.96, 0.02)),
    ("C20", is_role("attention", 1, conv="none"), wide),
    ("C20", is_role("attention", 1, conv="q"), wide),
    ("C20", is_role("attention", 1, conv="k"), never(0.3)),
    ("C20", is_role("attention", 1, conv="qkv"), never(0.3)),
    ("C20", is_role("mamba", 1, kernel=4, gate=True), never(0.3)),
    ("C20", is_role("mamba", 1, gate=False), never(0.3)),
    ("C20", is_role("s6", 1, kernel=4), never(0.3)),
    ("C23", lambda run: mixer(run) == "rwkv4" and run.model.positions == "relative", narrow),
    ("C24", is_role("mamba2", 1), lambda run: within(run, (1e-4, 5e-3), 0.995, 0.02)),
    ("C24", is_role("mamba", 1), lambda run: within(run, (1e-3, 1e-2), 0.995, 0.02)),
    ("C24", is_role("attention", 2), lambda run: within(run, (1e-5, 1e-1), 0.995, 0.02)),
    ("C25", lambda run: run.train.lr in (1e-4, 4.642e-4, 2.154e-3, 1e-2), never(0.9)),
]


@pytest.mark.parametrize(
    ("name", "condition", "score"), PARTS, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(PARTS)]
)
def test_every_part_of_a_rule_counts(name, condition, score):
    bumpy = ("attention", "hyena", "mamba") if name == "C18" else ("attention", "mamba")
    rows = made_rows(BY_NAME[name], changed(condition, score))
    if (
        name == "C18"
    ):  # Mamba's loss falls at once and its score does not: a bump without gain, as attention's
        curves = made_curves(rows)
        flat = {row.run_id for row in rows if row.spec["model"]["mixer"]["name"] == "mamba"}
        curves |= {
            run: [replace(point, accuracy=0.96) for point in curve]
            for run, curve in curves.items()
            if run in flat
        }
        (verdict,) = judge([BY_NAME[name]], rows, curves)
    else:
        verdict = verdict_of(BY_NAME[name], rows, bumpy)
    assert verdict.verdict == "not reproduced", verdict.numbers
